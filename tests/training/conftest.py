"""A run small enough to train in a second."""

import dataclasses

import pytest

from statetrace.config.recipe import Recipe
from statetrace.config.stages import StageSettings
from statetrace.runs import Run
from statetrace.training.callback import Callback
from statetrace.training.loop import train

TOY = {
    "group": "S3",
    "length": 6,
    "model": "gpt2",
    "layers": 2,
    "width": 32,
    "heads": 2,
    "sequences": 2000,
    "steps": 24,
    "batch": 32,
    "learning_rate": 3e-3,
    "device": "cpu",
    "evaluate_every": 8,
    "evaluate_sequences": 100,
    "checkpoint_every": 8,
    "log_every": 1,
}


def toy(**changes) -> Recipe:
    return Recipe().override(TOY | changes)


def staged(*stages, **changes) -> Recipe:
    """The toy as a chain of stages."""
    chain = tuple(StageSettings(**stage) for stage in stages)
    return dataclasses.replace(toy(**changes), stage=chain)


def flags(settings) -> list[str]:
    """The same settings as command-line options."""
    return [part for k, v in settings.items() for part in (f"--{k.replace('_', '-')}", str(v))]


class Recorder(Callback):
    """Remembers what it heard; asks to stop after the steps it is given."""

    def __init__(self, stop_after=()):
        self.messages, self.steps, self.records = [], [], []
        self.stop_after = set(stop_after)

    def on_message(self, message):
        self.messages.append(message)

    def on_step(self, step, train_loss):
        self.steps.append(step)

    def on_evaluation(self, record):
        self.records.append(record)

    def should_stop(self):
        stop = bool(self.stop_after)
        self.countdown = getattr(self, "countdown", min(self.stop_after, default=0)) - 1
        return stop and self.countdown <= 0


@pytest.fixture
def recorder():
    return Recorder


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
    """The toy, trained; nobody changes it."""
    run = Run(tmp_path_factory.mktemp("run") / "whole")
    train(toy(), run, Recorder())
    return run
