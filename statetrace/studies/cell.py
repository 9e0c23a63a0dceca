"""One cell: train its run to the early evaluation, evaluate, train to the end, evaluate again.

The run stops at the early step with a checkpoint and is then resumed. Runs resume bit for bit, so
the final weights are those of an uninterrupted run.

Cost: the run, and two evaluations.
Caveat: several workers may process a cell one after the other; each step first checks whether an
earlier worker has done it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.runs import Run, checkpoint_damage
from statetrace.studies.folder import Study
from statetrace.studies.grid import Cell, StudyPlan
from statetrace.training.callback import Callback

Stop = Callable[[], bool]
Work = Callable[[Study, Cell, Stop], dict[str, Any] | None]
"""Processes a cell: returns its row of the table, or None where it was stopped."""


class Until(Callback):
    """Stops a run on request, or after a step of its last stage."""

    def __init__(self, step: int | None, stop: Stop) -> None:
        self._until, self._stop, self._done, self._last = step, stop, 0, True

    def on_stage_start(self, stage: Stage) -> None:
        self._last = stage.last

    def on_start(self, step: int, steps: int) -> None:
        self._done = step

    def should_stop(self) -> bool:
        self._done += 1
        reached = self._until is not None and self._last and self._done >= self._until
        return reached or self._stop()


def train_cell(study: Study, cell: Cell, stop: Stop) -> dict[str, Any] | None:
    """Train and evaluate a cell, from its last checkpoint to its end."""
    from statetrace.studies.evaluate import evaluate_checkpoint
    from statetrace.training.loop import train

    recipe, run = Recipe.of(dict(cell.recipe)), study.run(cell)
    settings = study.plan.settings
    device = recipe.training.device
    last = recipe.stages[-1]
    full = settings.verdict == "full"
    early = study.early(cell)
    if early is None and settings.early < last.training.steps:
        step = settings.early
        if checkpoint_damage(run.checkpoint(step)) is not None:
            reached = train(recipe, run, Until(step, stop), resume=True)
            if not reached.finished and (reached.stage != last.label or reached.step < step):
                return None
            step = reached.step
        early = evaluate_checkpoint(run, step, device, full and not settings.train_on)
        study.write_early(cell, early)
    if early is not None and not settings.train_on:
        return row(run, early, early)
    outcome = train(recipe, run, Until(None, stop), resume=True)
    if not outcome.finished:
        return None
    return row(run, early, evaluate_checkpoint(run, outcome.step, device, full))


def row(run: Run, early: dict[str, Any] | None, final: dict[str, Any]) -> dict[str, Any]:
    info = run.info
    seconds = [session.get("seconds", 0.0) for session in info["sessions"]]
    cost = {
        "seconds": round(sum(seconds), 3),
        "device": info["hardware"]["device"],
        "parameters": info["parameters"],
    }
    return {"early": early or final, "final": final, "cost": cost}


def do_nothing(study: Study, cell: Cell, stop: Stop) -> dict[str, Any] | None:
    """For measuring overhead: writes one line, which records whether the cell had ended before."""
    repeated = study.outcome(cell) is not None
    with (study.path / "cells" / f"{cell.name}.done").open("a") as file:
        file.write(f"{os.getpid()} {'repeated' if repeated else 'open'}\n")
    return {"early": {}, "final": {}, "cost": {"seconds": 0.0}}


KINDS: dict[str, Work] = {"train": train_cell, "nothing": do_nothing}


def check_cells(plan: StudyPlan) -> None:
    """Refuse models and groups that do not exist, for all cells before any is trained."""
    from statetrace.groups import group
    from statetrace.models.from_recipe import model_spec

    if plan.settings.work != "train":
        return
    checked = set()
    for cell in plan.cells:
        recipe = Recipe.of(dict(cell.recipe))
        key = (recipe.model.__class__, str(recipe.model), recipe.task.group, recipe.task.notation)
        if key in checked:
            continue
        checked.add(key)
        try:
            model_spec(recipe)
            group(recipe.task.group, recipe.task.notation)
        except StatetraceError as error:
            raise StatetraceError(f"cell '{cell.name}': {error}") from None
