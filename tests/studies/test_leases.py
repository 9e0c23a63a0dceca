"""Claims: one owner at a time, dead ones found out, latecomers fenced off."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from multiprocessing import get_context

import pytest

from statetrace.studies import leases
from statetrace.studies.leases import latest, take


def test_one_at_a_time_and_again_after_release(tmp_path):
    with take(tmp_path, "a") as mine:
        assert mine.before is None
        assert take(tmp_path, "a") is None
        assert take(tmp_path, "b") is not None
    held = latest(tmp_path, "a")
    assert held.released
    assert held.number == 1
    again = take(tmp_path, "a")
    assert again is not None
    assert again.before is None
    assert latest(tmp_path, "a").number == 2


@pytest.fixture(params=["/proc", "ps"])
def system(request, monkeypatch, tmp_path):
    """With /proc, and as on macOS, without."""
    if request.param == "ps":
        monkeypatch.setattr(leases, "PROC", tmp_path / "no proc")
    leases._machine.cache_clear()
    yield request.param
    leases._machine.cache_clear()


def test_a_process_is_known_by_its_start(system):
    me = leases.Owner.me()
    assert me.lives()
    assert me.is_here()
    assert me.started
    assert not dataclasses.replace(me, started="earlier").lives()  # the id was used again
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    while leases._started(child.pid) is not None:  # it ends, and is a zombie until it is waited for
        time.sleep(0.01)
    child.wait()
    assert leases._started(child.pid) is None


def test_the_lease_of_a_killed_process_is_taken_over(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from statetrace.studies.leases import take;"
        "take(Path(sys.argv[1]), 'a').__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    assert process.wait() == -9
    lease = take(tmp_path, "a")
    assert lease.before.pid == process.pid


@pytest.mark.parametrize(("age", "open_"), [(leases.STALE - 30, False), (leases.STALE + 30, True)])
def test_on_another_machine_silence_decides(tmp_path, age, open_):
    take(tmp_path, "a")
    file = tmp_path / "a.1"
    record = json.loads(file.read_text())
    record["owner"] |= {"host": "elsewhere", "machine": "elsewhere", "pid": 1}
    file.write_text(json.dumps(record))
    then = file.stat().st_mtime - age
    os.utime(file, (then, then))
    assert latest(tmp_path, "a").is_open() is open_
    assert (take(tmp_path, "a") is not None) is open_


def test_a_held_lease_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "BEAT", 0.01)
    beaten, real = threading.Event(), os.utime
    monkeypatch.setattr(os, "utime", lambda *a: (real(*a), beaten.set()))
    with take(tmp_path, "a"):
        assert beaten.wait(300)


def test_an_owner_thought_dead_notices(tmp_path, monkeypatch):
    mine = take(tmp_path, "a")
    monkeypatch.setattr(leases.LeaseRecord, "is_open", lambda self: True)
    theirs = take(tmp_path, "a")
    assert not mine.is_ours()
    assert mine.lost
    assert theirs.is_ours()


def _race(folder, together, wins):
    together.wait()
    won = [number for number in range(200) if take(folder, f"cell-{number}") is not None]
    wins.put(won)
    together.wait()  # the leases of a process that has ended may be taken


def test_in_a_race_every_cell_has_one_winner(tmp_path):
    context = get_context("fork")
    together, wins = context.Barrier(4), context.Queue()
    racers = [context.Process(target=_race, args=(tmp_path, together, wins)) for _ in range(4)]
    for racer in racers:
        racer.start()
    won = [wins.get(timeout=300) for _ in racers]
    for racer in racers:
        racer.join()
    assert sorted(number for one in won for number in one) == list(range(200))
