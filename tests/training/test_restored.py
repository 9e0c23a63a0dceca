"""Damaged files of a run are restored from its checkpoints, or named."""

import json
import shutil

import pytest

from statetrace.errors import StatetraceError
from statetrace.files import read_json, write_json
from statetrace.groups import group
from statetrace.lenses.dynamics import dynamics
from statetrace.lenses.loading import load_run
from statetrace.lenses.specs import DynamicsSpec
from statetrace.models.from_recipe import make_task
from statetrace.runs import LOG, Run
from statetrace.tasks.sequences import unique_sequences
from statetrace.training.loop import train
from tests.training.conftest import toy

DAMAGES = {
    "empty": lambda body: b"",
    "cut": lambda body: body[: len(body) // 2],
    "zeros": lambda body: bytes(len(body)),
    "one bit": lambda body: body[:400] + bytes([body[400] ^ 1]) + body[401:],
    "other JSON": lambda body: b'{"format": 1}',
    "a digit": lambda body: body.replace(b'"state": 0.', b'"state": 1.').replace(b"24", b"25"),
}


@pytest.fixture
def run(uninterrupted, tmp_path):
    shutil.copytree(uninterrupted.path, tmp_path / "run")
    return Run(tmp_path / "run")


def damage(file, kind):
    before = file.read_bytes()
    file.write_bytes(DAMAGES[kind](before))
    assert file.read_bytes() != before
    return before


@pytest.mark.parametrize("kind", DAMAGES)
def test_run_json(run, uninterrupted, recorder, kind):
    file = run.path / "run.json"
    damage(file, kind)
    assert run.recipe == uninterrupted.recipe
    heard = recorder()
    assert train(toy(), run, heard, resume=True).finished
    assert any(str(file) in message and "damaged" in message for message in heard.messages)
    assert read_json(file)["recipe"] == uninterrupted.recipe


def test_a_deleted_run_json(run, recorder):
    (run.path / "run.json").unlink()
    assert run.exists()
    assert run.recipe == toy().to_dict()


def test_without_a_checkpoint_the_damage_is_named(run):
    shutil.rmtree(run.path / "checkpoints")
    damage(run.path / "run.json", "one bit")
    with pytest.raises(StatetraceError, match=r"run\.json is damaged .* no checkpoint"):
        _ = run.recipe


def test_the_run_json_of_another_run_is_refused(run, recorder):
    write_json(run.path / "run.json", {"format": 1, "recipe": toy(seed=1).to_dict()})
    with pytest.raises(StatetraceError, match=r"run\.json describes a different run"):
        _ = run.recipe
    prolonged = {"format": 1, "recipe": toy(steps=48).to_dict()}
    write_json(run.path / "run.json", prolonged)
    assert run.recipe == toy(steps=48).to_dict()


@pytest.mark.parametrize("kind", DAMAGES)
def test_the_log(run, uninterrupted, recorder, kind):
    """It is read from the checkpoint at once, and restored by the next `train`."""
    before = damage(run.path / LOG, kind)
    spec = DynamicsSpec(run=str(run.path))
    lens, same = (dynamics(None, make_task(toy()), s) for s in
                  (spec, DynamicsSpec(run=str(uninterrupted.path))))  # fmt: skip
    assert lens.columns == same.columns
    heard = recorder()
    train(toy(), run, heard, resume=True)
    assert heard.messages[0] == f"{run.path / LOG} was damaged; restored it"
    assert (run.path / LOG).read_bytes() == before


def test_a_damaged_copy_of_the_log_is_not_used(run, uninterrupted):
    damage(run.checkpoint(24) / LOG, "cut")
    assert run.metrics() == uninterrupted.metrics()


def test_other_data_are_not_analyzed(tmp_path, recorder):
    s3, data, run = group("S3"), tmp_path / "data", Run(tmp_path / "run")
    unique_sequences(s3, 300, 6, seed=1).save(data, s3)
    train(toy(data=str(data), steps=2, sequences=300), run, recorder())
    assert len(load_run(run).task.held_out)
    unique_sequences(s3, 300, 6, seed=2).save(data, s3)
    with pytest.raises(StatetraceError, match=r"data in .* have changed since .*step-2"):
        load_run(run)


def test_files_of_older_versions_are_read(run):
    """They have no checksum of their own."""
    for file in run.path.rglob("*.json"):
        content = json.loads(file.read_text())
        content.pop("content_sha256", None)
        file.write_text(json.dumps(content))
    assert run.recipe == toy().to_dict()
