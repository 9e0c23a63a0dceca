"""A short round of benchmarks/faults.py, and that it finds what is wrong."""

import random
import sys

import pytest

from benchmarks import faults
from benchmarks.fault_jobs import make_jobs, renew

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks processes")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    (job,) = make_jobs(tmp_path_factory.mktemp("faults"), ["train, resumed"], lambda line: None)
    return job


KINDS = ("SIGKILL", "bit flipped", "other JSON", "deleted")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_different(job, tmp_path, kind):
    chance = random.Random(kind)
    (fault,) = faults.plan([job], 1, chance, kind)
    outcome, why, _ = faults.attempt(fault, tmp_path / "work", chance)
    assert outcome in (faults.SURVIVED, faults.REFUSED), (fault.file, why)


@pytest.mark.parametrize(
    ("file", "ending", "outcome"),
    [
        (None, faults.Ending(None, ""), faults.LOST),
        (None, faults.Ending(1, f'Traceback (most recent\n  File "{faults.PACKAGE}/'), faults.LOST),
        ("run/metrics.jsonl", faults.Ending(0, ""), faults.SURVIVED),
    ],
)
def test_outcomes(job, tmp_path, monkeypatch, file, ending, outcome):
    fault = faults.Fault(job, "SIGKILL", faults.twice, file)
    monkeypatch.setattr(faults, "run", lambda *_: faults.Ending(0, ""))
    monkeypatch.setattr(faults, "differences", lambda *_: [])
    assert faults.judge(fault, tmp_path, ending)[0] == outcome


@pytest.mark.parametrize(
    ("text", "status", "outcome"),
    [
        ("", 0, faults.DIFFERENT),
        ("checkpoint run/checkpoints/step-30 is damaged (config.json is missing)", 0, faults.OLDER),
        ("error: it is damaged", 1, faults.LOST),
        ("error: run/checkpoints/step-30/config.json is damaged", 1, faults.REFUSED),
        ("error: config.json is damaged\nerror: twice", 1, faults.LOST),
    ],
)
def test_a_different_result_is_noticed(job, tmp_path, monkeypatch, text, status, outcome):
    """Only a sentence that names the file excuses it."""
    file = "run/checkpoints/step-30/config.json"
    monkeypatch.setattr(faults, "run", lambda *_: faults.Ending(status, text))
    renew(tmp_path / "work", job.start)  # which lacks the last checkpoint
    fault = faults.Fault(job, "deleted", faults.damage("deleted", file), file)
    assert faults.judge(fault, tmp_path / "work", faults.Ending(0, ""))[0] == outcome
