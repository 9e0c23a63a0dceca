"""Branches: another run's checkpoint with a data order of its own."""

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.runs import Run
from statetrace.studies.stacked import train_together
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from tests.training.conftest import toy
from tests.training.test_loop import weights


def branch(parent, step=8, **changes):
    return toy(branch_from=str(parent.path), branch_step=step, **changes)


def test_a_branch_with_the_same_seed_repeats_its_parent(uninterrupted, tmp_path, recorder):
    run, heard = Run(tmp_path / "branch"), recorder()
    train(branch(uninterrupted), run, recorder(stop_after=[3]))  # and is resumed
    assert train(branch(uninterrupted), run, heard, resume=True).step == 24
    assert run.metrics() == [r for r in uninterrupted.metrics() if r["step"] > 8]
    assert [step for step, _ in run.checkpoints()] == [11, 16, 24]
    assert heard.messages == []
    ours, theirs = weights(run), weights(uninterrupted)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_branch_has_its_own_data_order(uninterrupted, tmp_path, recorder):
    run = Run(tmp_path / "branch")
    train(branch(uninterrupted, seed=1), run, recorder())
    first, theirs = (r.metrics("training") for r in (run, uninterrupted))
    assert first[0]["step"] == 9
    assert first[0]["loss"] != theirs[8]["loss"]
    assert first[0]["learning_rate"] == theirs[8]["learning_rate"]


def test_branches_are_trained_together(tmp_path, recorder):
    parent = Run(tmp_path / "parent")
    train(toy(dropout=0.0), parent, recorder())
    recipes = [branch(parent, 16, seed=seed, dropout=0.0) for seed in (1, 2)]
    runs = [Run(tmp_path / f"run-{n}") for n in (1, 2)]
    assert train_together(recipes, runs, Callback()).step == 24
    alone = Run(tmp_path / "alone")
    train(recipes[1], alone, recorder())
    losses = [[record["loss"] for record in run.metrics("training")] for run in (*runs, alone)]
    np.testing.assert_allclose(losses[1], losses[2], rtol=2e-3)
    assert losses[0] != losses[1]


def test_what_cannot_branch(uninterrupted, tmp_path, recorder):
    for recipe, words in (
        (branch(uninterrupted, 9), "no checkpoint at branch_step 9 .* steps: 8, 16"),
        (branch(uninterrupted, 16, steps=16), "steps: 8"),
        (toy(branch_from=str(uninterrupted.path)), "no checkpoint at branch_step 0"),
        (branch(uninterrupted, width=16), "another task or model"),
        (branch(Run(tmp_path / "none")), "holds no run"),
    ):
        with pytest.raises(StatetraceError, match=words):
            train(recipe, Run(tmp_path / "run"), recorder())
    with pytest.raises(StatetraceError, match="branch_step 8 has no effect"):
        toy(branch_step=8)
