"""Which tests `make check` leaves out: those of slow.txt, and those marked `slow` where they wait.

`pytest --record-slow` runs tests and corrects the list as far as it ran them: a test is slow if it
takes more than LIMIT seconds of processor time, with all its parameters, its share of the fixtures
that it needs (they are divided among the tests that use them), and the commands that it ran. Other
work on the machine hardly changes that.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests import forkserver

LIST = Path(__file__).with_name("slow.txt")
LIMIT = 0.4


def pytest_addoption(parser):
    parser.addoption("--record-slow", action="store_true", help="Write tests/slow.txt.")


def name(item):
    """A test without its parameters."""
    return item.nodeid.split("[")[0]


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items):
    slow = set(LIST.read_text().split())
    for item in items:
        if name(item) in slow:
            item.add_marker(pytest.mark.slow)


class Recorder:
    """Adds up the seconds of every test, in the processes that run them."""

    def __init__(self):
        self.seconds, self.fixtures, self.users = Counter(), Counter(), {}
        self.setup = 0.0  # of the fixtures within what is being measured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        for fixtures in item._fixtureinfo.name2fixturedefs.values():
            self.users.setdefault(_key(fixtures[-1]), set()).add(name(item))
        self.setup = 0.0
        before = _processor_time()
        result = yield
        self.seconds[name(item)] += _processor_time() - before - self.setup
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        around, self.setup = self.setup, 0.0
        before = _processor_time()
        try:
            return (yield)
        finally:
            spent = _processor_time() - before
            self.fixtures[_key(fixturedef)] += spent - self.setup
            self.setup = around + spent

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        seconds, fixtures, users = node.workeroutput["processor time"]
        self.seconds.update(seconds)
        self.fixtures.update(fixtures)
        for fixture, tests in users.items():
            self.users.setdefault(fixture, set()).update(tests)

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            users = {fixture: sorted(tests) for fixture, tests in self.users.items()}
            measured = dict(self.seconds), dict(self.fixtures), users
            session.config.workeroutput["processor time"] = measured
            return
        for fixture, tests in self.users.items():
            self.seconds.update(dict.fromkeys(tests, self.fixtures[fixture] / len(tests)))
        kept = set(LIST.read_text().split()) - self.seconds.keys()
        slow = {test for test, seconds in self.seconds.items() if seconds > LIMIT}
        LIST.write_text("".join(f"{test}\n" for test in sorted(kept | slow)))
        total, most = sum(self.seconds.values()), self.seconds.most_common(100)
        print(f"\n{total:.0f} s of processor time, {sum(self.seconds[t] for t in slow):.0f} slow")
        print("\n".join(f"{seconds:7.2f} {test}" for test, seconds in most))


def _key(fixture):
    return f"{fixture.baseid}::{fixture.argname}"


def _processor_time():
    return sum(os.times()[:4]) + forkserver.processor_time


def pytest_configure(config):
    if config.option.record_slow:
        config.pluginmanager.register(Recorder())
