"""Chains of stages on the command line: each stage is announced, a dry run knows them all, and
`--resume` needs no recipe."""

import json

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.runs import Run
from statetrace.training.loop import train
from tests.training.conftest import Recorder, staged

CHAIN = staged(
    {"objective": "topic", "table": "paper-2", "steps": 4},
    {"objective": "state", "length": 3, "steps": 4, "auxiliary": "parity", "stop_at": 0.99},
    {"objective": "state", "steps": 6},
    evaluate_every=4,
)


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "chain.toml").write_text(CHAIN.to_toml())
    return str(tmp_path / "chain.toml")


def statetrace(*words: object):
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "80"})


def test_stages_are_announced_and_shown(tmp_path, recipe):
    done = statetrace("train", recipe, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("stage")] == [
        "stage 1-topic of 3: up to 4 steps",
        "stage 2-state of 3: up to 4 steps",
        "stage 3-state of 3: up to 6 steps",
    ]
    assert any("accuracy: next token" in line for line in lines)
    assert any("accuracy: parity at layer 1" in line for line in lines)
    assert f"trained model: {tmp_path}/run/checkpoints/step-6" in lines
    shown = statetrace("show", tmp_path / "run")
    assert shown.exit_code == 0, shown.output
    assert "after 6 steps" in shown.stdout.replace("\n", " ")


def test_resume_takes_the_chain_from_the_run(tmp_path):
    run = Run(tmp_path / "run")
    train(CHAIN, run, Recorder(stop_after=[6]))
    done = statetrace("train", "--resume", "--out", run.path)
    assert done.exit_code == 0, done.output
    assert "stage 2-state of 3" in done.stderr
    assert "stage 1-topic" not in done.stderr
    sessions = json.loads((run.path / "run.json").read_text())["sessions"]
    assert [s.get("from_stage") for s in sessions] == ["1-topic", "2-state"]


def test_a_dry_run_knows_the_chain(tmp_path, recipe):
    done = statetrace("train", recipe, "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("[[stage]]") == 3
    assert "4 of 32 x 7 tokens" in done.stdout
    assert "4 of 32 x 4 tokens" in done.stdout
    assert "less if it ends early" in done.stdout
    assert len(list(tmp_path.iterdir())) == 1


def test_a_chain_that_cannot_be_followed_is_refused(tmp_path, recipe):
    for words in (["train", recipe, "--dry-run"], ["train", recipe, "--out", tmp_path / "run"]):
        done = statetrace(*words, "--group", "S4")
        assert "stage 1-topic: table 'paper-2' is for the elements of S3" in str(done.exception)
    assert len(list(tmp_path.iterdir())) == 1
