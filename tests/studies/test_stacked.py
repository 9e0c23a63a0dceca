"""Seeds trained as one batched program: each one's numbers are those of its solo run."""

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.studies.stacked import train_together, why_not
from statetrace.studies.worker import never
from statetrace.training.listener import Quiet
from statetrace.training.loop import train
from tests.training.conftest import staged, toy

SETTINGS = {
    "dropout": 0.0,
    "weight_decay": 0.1,
    "grow": 0.5,
    "warmup": 4,
    "clip": 0.5,
    "threads": 1,
}
SEEDS = (0, 1, 5)


def numbers(run: Run) -> np.ndarray:
    """Everything a log says, in its order."""
    found = []
    for record in run.metrics():
        found += [record["step"], record["loss"], *record.get("accuracy", {}).values()]
    return np.array(found, dtype=float)


def solo(tmp_path, recipes):
    runs = [Run(tmp_path / f"solo-{n}") for n in range(len(recipes))]
    for recipe, run in zip(recipes, runs, strict=True):
        train(recipe, run, Quiet())
    return runs


def assert_alike(ones, others):
    for one, other in zip(ones, others, strict=True):
        assert [r["kind"] for r in one.metrics()] == [r["kind"] for r in other.metrics()]
        # an answer between two almost equal logits may fall either way, once in a hundred sequences
        np.testing.assert_allclose(numbers(one), numbers(other), rtol=2e-3, atol=2e-3)
        assert [step for step, _ in one.checkpoints()] == [step for step, _ in other.checkpoints()]
        (_, a), (_, b) = one.checkpoints()[-1], other.checkpoints()[-1]
        theirs = load_checkpoint(b).state_dict()
        for name, tensor in load_checkpoint(a).state_dict().items():
            np.testing.assert_allclose(tensor, theirs[name], rtol=1e-3, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_every_seed_equals_its_solo_run(tmp_path, model):
    recipes = [toy(**SETTINGS, model=model, seed=seed) for seed in SEEDS]
    runs = [Run(tmp_path / f"run-{n}") for n in SEEDS]
    assert train_together(recipes, runs, None, never) == 24
    assert_alike(runs, solo(tmp_path, recipes))
    assert len({tuple(numbers(run)) for run in runs}) == len(SEEDS)


def test_stopped_continued_and_ended_alone(tmp_path):
    recipes = [toy(**SETTINGS, seed=seed, checkpoint_every=24) for seed in SEEDS]
    runs = [Run(tmp_path / f"run-{n}") for n in SEEDS]
    left = iter(range(5))
    assert train_together(recipes, runs, None, lambda: next(left, None) is None) == 6
    assert train_together(recipes, runs, 15, never) == 15
    train(recipes[0], runs[0], Quiet(), resume=True)
    with pytest.raises(StatetraceError, match="runs at steps 15, 24 cannot be trained together"):
        train_together(recipes, runs, None, never)
    train_together(recipes[1:], runs[1:], None, never)
    whole = solo(tmp_path, recipes)
    for run, other in zip(runs, whole, strict=True):
        np.testing.assert_allclose(numbers(run), numbers(other), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (toy(dropout=0.1), "dropout is 0.1"),
        (toy(dropout=0.0, stop_at=0.9), "may end early"),
        (toy(dropout=0.0, accumulate=2), "accumulate is 2"),
        (toy(dropout=0.0, program=False), "program is false"),
        (toy(dropout=0.0, group="S7"), "vocabulary of 5,041 tokens"),
        (staged({"objective": "parity"}, {"objective": "state"}, dropout=0.0), "more than one"),
        (staged({"auxiliary": "parity"}, dropout=0.0), "more than one"),
        (toy(model="mamba", heads=None, dropout=None), "the family mamba"),
    ],
)
def test_what_cannot_be_stacked_says_why(recipe, words):
    assert words in why_not(recipe)
