"""Train several seeds of a small model at once: stacked parameters, one fused step for all.

A model of width 64 is limited by the launch of small operations; sixteen of them in one call cost
little more than one. Every seed has its own trainer, whose parameters and moments are views of the
stacked ones, so logs, evaluations and checkpoints are those of a single run, and each run can be
resumed alone.

Cost: memory for all seeds at once; evaluations run one seed after the other.
Caveat: sums are taken in another order, so numbers equal those of a single run up to rounding, not
bit for bit; over many steps such differences grow, as between two kinds of processor. Stages that
may end early cannot be stacked, because seeds would end at different steps, nor can models with
dropout on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.models.device import pick_device
from statetrace.models.from_recipe import make_task, model_spec
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.callback import Callback
from statetrace.training.fused import unsupported_size
from statetrace.training.loop import Outcome, train_runs
from statetrace.training.parallel import join

FAMILIES = ("gpt2", "pythia")
"""Families that the fused step supports."""


def why_not(recipe: Recipe) -> str | None:
    """Why a recipe cannot be trained in a stack; None where it can."""
    training, spec = recipe.training, model_spec(recipe)
    for stage in recipe.stages:
        if stage.training.may_end_early:
            return "its runs may end early"
        if stage.training.most_steps is not None:
            return "its runs may be prolonged"
        if stage.training.accumulate > 1:
            return f"accumulate is {stage.training.accumulate}"
    if spec.pretrained is not None:
        return "it starts from pretrained weights"
    if spec.family.name not in FAMILIES:
        return f"the family {spec.family.name} is not one of {', '.join(FAMILIES)}"
    if training.program is False:
        return "program is false, and a stack needs the fused step"
    device = pick_device(training.device)
    dropout = spec.family.dropout if spec.dropout is None else spec.dropout
    if dropout and device.type != "cuda":
        return f"dropout is {dropout:g}, which on a CPU is only supported for single runs"
    vocabulary, size = make_task(recipe).vocabulary, spec.size
    return unsupported_size(
        vocabulary.size,
        vocabulary.tokens(recipe.task.length),
        size.width // size.heads,
        spec.family.name == "pythia",
        device,
        setup.precision(recipe, device),
    )


def train_together(recipes: Sequence[Recipe], runs: Sequence[Run], callback: Callback) -> Outcome:
    """Train runs that differ only in their seed, as `train` would one by one. All must be at the
    same step of the same stage. Returns how the first one ended, and so did the others."""
    reason = why_not(recipes[0])
    if reason is not None:
        raise StatetraceError(f"runs cannot be trained together: {reason}")
    began = time.perf_counter()
    with join(recipes[0].training.device) as world, ExitStack() as locks:
        for run in runs:
            locks.enter_context(run.lock())
        first = setup.make_plan(recipes[0], world)
        plans = [first, *(first.with_recipe(recipe) for recipe in recipes[1:])]
        return train_runs(plans, runs, callback, began)
