"""The number of threads is measured, unless the user has chosen it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from statetrace.models import threads
from statetrace.models.threads import fastest_threads, using_threads

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [({1: 0.01, 2: 0.04, 4: 0.08}, 1), ({1: 0.08, 2: 0.02, 4: 0.06}, 2), ({1: 0.01, 2: 0.01}, 1)],
)
def test_more_threads_only_where_they_gain(monkeypatch, seconds, expected):
    clock = [0.0]

    def work():
        clock[0] += seconds[torch.get_num_threads()]

    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock[0])
    monkeypatch.delenv("OMP_NUM_THREADS")
    with using_threads(max(seconds)):
        number, measured = fastest_threads(work, CPU)
        assert torch.get_num_threads() == max(seconds)
    assert number == expected
    assert measured == pytest.approx(seconds[expected])


def test_a_number_that_was_chosen_stays(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with using_threads(2):
        assert fastest_threads(lambda: None, CPU)[0] == 2


def test_waiting_threads_sleep_unless_told_otherwise():
    code = "import os, statetrace; print(os.environ['OMP_WAIT_POLICY'])"
    for given, expected in ({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=given
        )
        assert done.stdout.strip() == expected, done.stderr
