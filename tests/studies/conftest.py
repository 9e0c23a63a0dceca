"""Studies small enough to run in seconds."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from statetrace.studies import supervise
from statetrace.studies.folder import Study
from statetrace.studies.grid import read_study
from statetrace.studies.worker import work

TOY = """
seeds = {seeds}
early = 10
verdict = "{verdict}"
{rules}

[settings]
group = "S3"
length = 4
model = "gpt2"
layers = 1
width = 16
heads = 2
dropout = {dropout}
sequences = 500
steps = {steps}
batch = 16
learning_rate = 3e-3
device = "cpu"
evaluate_every = {checkpoint_every}
evaluate_sequences = 50
checkpoint_every = {checkpoint_every}
log_every = 1
{settings}

{grid}
"""


SLOWER = {"steps": 120, "checkpoint_every": 20, "rules": "retries = 20"}
"""For studies that are to be caught in the middle; on a busy machine, several times."""


def study_file(folder: Path, **about) -> Path:
    """A study file; keyword arguments are the fields of TOY."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "toy.toml"
    usual = {
        "seeds": 2,
        "grid": "",
        "settings": "",
        "rules": "",
        "steps": 30,
        "dropout": 0.1,
        "verdict": "quick",
    }
    file.write_text(TOY.format(**usual | {"checkpoint_every": 6} | about))
    return file


def prepared(folder: Path, out: str = "study", **about) -> Study:
    return Study.prepare(folder / out, read_study(study_file(folder, **about)))


def undisturbed(folder: Path, **about) -> Study:
    """The same study done in this process, one cell after the other."""
    study = prepared(folder / "undisturbed", **about)
    work(study)
    return study


@pytest.fixture(scope="session")
def left_alone(tmp_path_factory) -> Study:
    """Four cells of the slower study that nobody disturbed."""
    return undisturbed(tmp_path_factory.mktemp("whole"), seeds=4, **SLOWER)


def assert_unharmed(study: Study, left_alone: Study) -> None:
    """Every cell of a study has ended as if it had been left alone."""
    expected = contents(left_alone)
    names = [cell.name for cell in study.plan.cells]
    assert contents(study) == {
        file: value for file, value in expected.items() if any(name in file for name in names)
    }


def contents(study: Study) -> dict[str, object]:
    """What must be equal for equal studies: logs and checkpoints byte by byte, and measurements."""
    found: dict[str, object] = {}
    for file in sorted((study.path / "cells").rglob("*")):
        if file.is_file() and (file.name == "metrics.jsonl" or "checkpoints" in file.parts):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            found[str(file.relative_to(study.path))] = digest
    for file in sorted((study.path / "outcomes").glob("*.json")):
        outcome = json.loads(file.read_text())
        found[file.name] = [outcome["state"], outcome.get("early"), outcome.get("final")]
    return found


def wait_for(condition, seconds=600.0):
    """The first true value of `condition`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen in time")


def look_often(monkeypatch) -> None:
    """Let a driver look at its study all the time, however long a look takes."""
    monkeypatch.setattr(supervise, "POLL", 0.03)
    clock = SimpleNamespace(perf_counter=lambda: 0.0, sleep=time.sleep)
    monkeypatch.setattr(supervise, "time", clock)


def a_worker_in_the_middle(study: Study, least=1, most=100):
    """(cell, process id) of a worker that has logged some steps of its cell and has more to do."""
    for file in (study.path / "claims").glob("[!.]*"):
        claim = json.loads(file.read_text())
        if claim["released"]:
            continue
        log = study.path / "cells" / file.name.rsplit(".", 1)[0] / "metrics.jsonl"
        if log.exists() and least <= len(log.read_text().splitlines()) <= most:
            return file.name.rsplit(".", 1)[0], claim["owner"]["pid"]
    return None


def begin(*words: object) -> subprocess.Popen:
    """`statetrace study ...` as its own process."""
    command = [sys.executable, "-m", "statetrace", "study", *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
