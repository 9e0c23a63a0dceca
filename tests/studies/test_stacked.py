"""Seeds trained as one batched program: each one's numbers are those of its solo run."""

import os
import signal

import numpy as np
import pytest

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.studies.stacked import train_together, why_not
from statetrace.studies.worker import never
from statetrace.training import checkpoint
from statetrace.training.callback import Callback, Until
from statetrace.training.loop import stage_run, train
from tests.training.conftest import staged, toy
from tests.training.test_stages import assert_same_bytes

SETTINGS = {
    "dropout": 0.0,
    "weight_decay": 0.1,
    "grow": 0.5,
    "warmup": 4,
    "clip": 0.5,
    "threads": 1,
}
SEEDS = (0, 1, 5)
TOPIC = {"objective": "topic", "table": "paper-1", "steps": 12, "checkpoint_every": 5}
STATE = {"objective": "state", "steps": 10, "learning_rate": 1e-3}


def numbers(run: Run) -> np.ndarray:
    """Everything a log says, in its order."""
    found = []
    for record in run.metrics():
        found += [record["step"], record.get("loss", 0), *record.get("accuracy", {}).values()]
    return np.array(found, dtype=float)


def solo(tmp_path, recipes):
    runs = [Run(tmp_path / f"solo-{n}") for n in range(len(recipes))]
    for recipe, run in zip(recipes, runs, strict=True):
        train(recipe, run, Callback())
    return runs


def assert_alike(ones, others):
    for one, other in zip(ones, others, strict=True):
        heads = [[(r["kind"], r.get("stage")) for r in run.metrics()] for run in (one, other)]
        assert heads[0] == heads[1]
        # an answer between two almost equal logits may fall either way, once in a hundred sequences
        np.testing.assert_allclose(numbers(one), numbers(other), rtol=2e-3, atol=2e-3)
        for mine, theirs in zip(homes(one), homes(other), strict=True):
            assert mine.path.relative_to(one.path) == theirs.path.relative_to(other.path)
            assert_alike_checkpoints(mine, theirs)


def homes(run: Run) -> list[Run]:
    return [stage_run(run, stage) for stage in Recipe.of(run.recipe).stages]


def assert_alike_checkpoints(one: Run, other: Run) -> None:
    """The same steps, the same files, and in the last the same weights."""
    assert [step for step, _ in one.checkpoints()] == [step for step, _ in other.checkpoints()]
    for (_, a), (_, b) in zip(one.checkpoints(), other.checkpoints(), strict=True):
        assert sorted(file.name for file in a.iterdir()) == sorted(f.name for f in b.iterdir())
        assert (a / "training.json").read_text() == (b / "training.json").read_text()
    weights = [load_checkpoint(f).state_dict() | checkpoint.auxiliary(f) for f in (a, b)]
    for name, tensor in weights[0].items():
        np.testing.assert_allclose(tensor, weights[1][name], rtol=1e-3, atol=2e-4, err_msg=name)


def chained(*stages, **told):
    return [staged(*stages, **SETTINGS | told, seed=seed) for seed in SEEDS]


@pytest.mark.parametrize("model", ["gpt2", "pythia"])
def test_every_seed_equals_its_solo_run(tmp_path, model):
    recipes = [toy(**SETTINGS, model=model, seed=seed) for seed in SEEDS]
    runs = [Run(tmp_path / f"run-{n}") for n in SEEDS]
    assert train_together(recipes, runs, Callback()).step == 24
    assert_alike(runs, solo(tmp_path, recipes))
    assert len({tuple(numbers(run)) for run in runs}) == len(SEEDS)


def test_stopped_continued_and_ended_alone(tmp_path):
    recipes = [toy(**SETTINGS, seed=seed, checkpoint_every=24) for seed in SEEDS]
    runs = [Run(tmp_path / f"run-{n}") for n in SEEDS]
    left = iter(range(5))
    assert train_together(recipes, runs, Until(None, lambda: next(left, None) is None)).step == 6
    assert train_together(recipes, runs, Until(15, never)).step == 15
    train(recipes[0], runs[0], Callback(), resume=True)
    with pytest.raises(StatetraceError, match="runs at steps 15, 24 cannot be trained together"):
        train_together(recipes, runs, Callback())
    train_together(recipes[1:], runs[1:], Callback())
    whole = solo(tmp_path, recipes)
    for run, other in zip(runs, whole, strict=True):
        np.testing.assert_allclose(numbers(run), numbers(other), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("model", "stages"),
    [
        ("gpt2", [TOPIC, STATE]),
        ("pythia", [{"objective": "parity", "length": 3, "steps": 9, "clip": 0.2}, STATE]),
        ("gpt2", [{"objective": "control", "steps": 6}, {"auxiliary": "parity"} | STATE]),
        ("pythia", [{"auxiliary": "parity,action", "steps": 7, "auxiliary_layer": 2}, STATE]),
        ("gpt2", [{"objective": "text", "file": "README.md", "steps": 5}, STATE]),
    ],
    ids=["topic", "parity", "auxiliary", "auxiliary first", "text"],
)
def test_every_seed_of_a_chain_equals_its_solo_run(tmp_path, model, stages):
    recipes = chained(*stages, model=model)
    runs = [Run(tmp_path / f"run-{n}") for n in SEEDS]
    assert train_together(recipes, runs, Callback()).step == STATE["steps"]
    assert_alike(runs, solo(tmp_path, recipes))
    assert len({tuple(numbers(run)) for run in runs}) == len(SEEDS)
    (session,) = runs[0].info["sessions"]
    assert session["ended"] == "finished"


def killed_together(recipes, runs, steps):
    """In a child process that dies behind so many steps, before they are saved."""
    left = iter(range(steps - 1))

    def die():
        return next(left, None) is None and os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            train_together(recipes, runs, Until(None, die))
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_chain_killed_in_any_stage_goes_on_together(tmp_path):
    """And comes out bit for bit as if it had not been."""
    recipes = chained(TOPIC, {"auxiliary": "parity", "checkpoint_every": 3} | STATE)
    whole, runs = ([Run(tmp_path / f"{name}-{n}") for n in SEEDS] for name in ("whole", "run"))
    train_together(recipes, whole, Callback())
    killed_together(recipes, runs, 7)
    killed_together(recipes, runs, 7)  # from step 5 to 12, the last, which is not saved yet
    killed_together(recipes, runs, 7)  # from step 10 on, and 5 of the second stage
    assert [step for step, _ in runs[0].checkpoints()] == [3]
    assert train_together(recipes, runs, Callback()).step == STATE["steps"]
    for one, other in zip(whole, runs, strict=True):
        assert_same_bytes(one, other)


def test_a_chain_stopped_between_its_stages_and_ended_alone(tmp_path):
    recipes = chained(TOPIC, STATE)
    runs = [Run(tmp_path / f"run-{n}") for n in SEEDS]
    left = iter(range(TOPIC["steps"] - 1))
    outcome = train_together(recipes, runs, Until(None, lambda: next(left, None) is None))
    assert (outcome.stage, outcome.finished) == ("1-topic", False)
    assert runs[0].stage("1-topic").checkpoints()[-1][0] == TOPIC["steps"]
    assert runs[0].metrics()[-1]["stage"] == "1-topic"
    assert train_together(recipes[1:], runs[1:], Until(4, never)).step == 4
    with pytest.raises(StatetraceError, match="runs at steps 0 of 2-state, 4 of 2-state cannot"):
        train_together(recipes, runs, Callback())
    for recipe, run in zip(recipes, runs, strict=True):
        assert train(recipe, run, Callback(), resume=True).finished
    for run, other in zip(runs, solo(tmp_path, recipes), strict=True):
        np.testing.assert_allclose(numbers(run), numbers(other), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (toy(dropout=0.1), "dropout is 0.1"),
        (toy(dropout=0.0, stop_at=0.9), "may end early"),
        (toy(dropout=0.0, accumulate=2), "accumulate is 2"),
        (toy(dropout=0.0, program=False), "program is false"),
        (toy(dropout=0.0, group="S7"), "vocabulary of 5,041 tokens"),
        (staged({"objective": "parity", "stop_loss": 0.1}, STATE, dropout=0.0), "may end early"),
        (staged({"objective": "parity"}, {"accumulate": 4}, dropout=0.0), "accumulate is 4"),
        (toy(model="mamba", heads=None, dropout=None), "the family mamba"),
    ],
)
def test_what_cannot_be_stacked_says_why(recipe, words):
    assert words in why_not(recipe)
