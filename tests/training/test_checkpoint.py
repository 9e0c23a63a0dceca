"""What stands in a checkpoint, and that other people's tools can read it."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from statetrace.models.from_recipe import make_splits, make_task
from statetrace.models.predict import predict
from statetrace.runs import Run, checkpoint_damage
from statetrace.training import checkpoint
from statetrace.training.evaluate import accuracy
from statetrace.training.loop import train
from tests.training.conftest import Recorder, toy


def test_any_hugging_face_user_can_load_it(uninterrupted):
    """And gets the accuracy that metrics.jsonl reports."""
    model = AutoModelForCausalLM.from_pretrained(uninterrupted.checkpoint(24))
    task = make_task(toy())
    _, analysis = make_splits(toy(), task)
    measured = accuracy(model, task, task.split(analysis[:100]), task.quotients(("parity",)))
    reported = uninterrupted.metrics("evaluation")[-1]
    assert measured.by_length == reported["accuracy_by_length"]
    assert measured.loss == pytest.approx(reported["loss_by_length"], abs=1e-6)


def test_accuracy_by_length_against_a_loop(uninterrupted):
    model = AutoModelForCausalLM.from_pretrained(uninterrupted.checkpoint(24)).eval()
    task = make_task(toy())
    sequences = task.sample(40, seed=9)
    measured = accuracy(model, task, task.split(sequences), task.quotients(("parity",)), batch=7)
    parity = task.group.parity
    for t in range(6):
        right = [0, 0]
        for actions in sequences.actions.tolist():
            tokens = torch.tensor([[6, *actions[: t + 1]]])  # nothing after t to look at
            answer = int(predict(model, tokens)[0, -1, :6].argmax())
            true = task.group.product(actions[: t + 1])
            right[0] += answer == true
            right[1] += bool(parity[answer] == parity[true])
        assert measured.by_length["state"][t] == right[0] / 40
        assert measured.by_length["parity"][t] == right[1] / 40


def test_nothing_is_pickled_and_everything_has_a_checksum(uninterrupted):
    folder = uninterrupted.checkpoint(24)
    names = {file.name for file in folder.iterdir()}
    assert names >= {"config.json", "model.safetensors", "optimizer.safetensors", "training.json"}
    assert {name.rsplit(".", 1)[1] for name in names} == {"json", "jsonl", "safetensors"}
    sums = json.loads((folder / "checksums.json").read_text())
    assert set(sums) == names - {"checksums.json"}
    assert checkpoint_damage(folder) is None
    state = json.loads((folder / "training.json").read_text())
    assert state["step"] == 24
    assert state["random"] == {"seed": 0, "step": 24}
    moments = load_file(folder / "optimizer.safetensors")
    assert moments["transformer.h.0.mlp.c_fc.weight/step"] == 24


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "training.json"])
def test_every_kind_of_damage_is_seen(uninterrupted, tmp_path, name):
    import shutil

    copy = tmp_path / "step-24"
    shutil.copytree(uninterrupted.checkpoint(24), copy)
    file = copy / name
    file.write_bytes(file.read_bytes()[:-1])
    assert checkpoint_damage(copy) == f"{name} does not match its checksum"
    file.unlink()
    assert checkpoint_damage(copy) == f"{name} is missing"
    (copy / "checksums.json").unlink()
    assert "checksums.json" in checkpoint_damage(copy)


def test_no_checkpoint_is_left_half_written(tmp_path, monkeypatch):
    """The process dies while writing: the folder under its final name never appears."""

    def die(*_, **__):
        raise KeyboardInterrupt

    run = Run(tmp_path / "run")
    monkeypatch.setattr(checkpoint, "save_file", die)
    with pytest.raises(KeyboardInterrupt):
        train(toy(), run, Recorder())
    assert run.checkpoints() == []
    monkeypatch.undo()
    assert train(toy(), run, Recorder(), resume=True).finished
