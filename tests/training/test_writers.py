"""TensorBoard receives the same numbers as metrics.jsonl; absent writers are explained."""

import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from statetrace.errors import StatetraceError
from statetrace.runs import Run
from statetrace.training.loop import train
from tests.training.conftest import Recorder, toy


def test_tensorboard_mirrors_the_metrics(tmp_path):
    run = Run(tmp_path / "run")
    train(toy(tensorboard=True), run, Recorder())
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    written = [e.value for e in events.Scalars("evaluation/accuracy/parity")]
    logged = [r["accuracy"]["parity"] for r in run.metrics("evaluation")]
    assert written == pytest.approx(logged, abs=1e-6)
    assert len(events.Scalars("training/loss")) == 24


@pytest.mark.parametrize(
    ("module", "option", "value"),
    [("torch.utils.tensorboard", "tensorboard", True), ("wandb", "wandb", "my-project")],
)
def test_a_missing_writer_says_how_to_get_it(tmp_path, monkeypatch, module, option, value):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(StatetraceError, match=rf"{option}.*pip install 'statetrace\[{option}\]'"):
        train(toy(**{option: value}), Run(tmp_path / "run"), Recorder())


def test_weights_and_biases_receives_scalars(tmp_path, monkeypatch):
    """Against a stand-in with wandb's interface: its service cannot be reached from a test."""

    class Logged:
        def __init__(self, **about):
            self.about, self.lines, self.finished = about, [], False

        def log(self, values, step):
            self.lines.append((step, values))

        def finish(self):
            self.finished = True

    class Wandb:
        @staticmethod
        def init(**about):
            Wandb.run = Logged(**about)
            return Wandb.run

    monkeypatch.setitem(sys.modules, "wandb", Wandb)
    train(toy(wandb="my-project"), Run(tmp_path / "run"), Recorder())
    assert Wandb.run.about["project"] == "my-project"
    assert Wandb.run.finished
    assert (24, {"evaluation/loss", "evaluation/accuracy/state", "evaluation/accuracy/parity"}) in [
        (step, set(values)) for step, values in Wandb.run.lines
    ]
