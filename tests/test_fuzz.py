"""Short rounds of benchmarks/fuzz.py, and every input that once crashed."""

import pytest

from benchmarks.fuzz import CASES, crash, fuzz
from benchmarks.fuzz_targets import SHARES, make_targets

INPUTS = {"answer": 5, "checkpoint": 3, "run": 20, "study": 20}
"""Of the costly targets; 80 of each other."""


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return {target.name: target for target in make_targets(tmp_path_factory.mktemp("fuzz"))}


@pytest.mark.parametrize("name", SHARES)
def test_mutated_inputs_are_accepted_or_refused(targets, name):
    count, traces = fuzz(targets[name], INPUTS.get(name, 80), seed=1, keep=None)
    assert count.tried
    assert not traces, traces[0]


@pytest.mark.parametrize("case", sorted(CASES.glob("*/*")), ids=lambda case: case.name)
def test_what_once_crashed(targets, case):
    assert crash(targets[case.parent.name].read, case.read_bytes()) is None


def test_a_crash_is_seen(targets):
    def read(body):
        raise KeyError(body[0])

    assert "KeyError" in crash(read, b"a")
    assert crash(targets["request"].read, b"{") is None
