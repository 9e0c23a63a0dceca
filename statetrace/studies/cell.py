"""One cell: train its run, look at it early, train on, look again.

The early look stops the run at that step, with a checkpoint, and resumes it: runs resume bit for
bit, so the weights that come out are those of a run that was never stopped.

Cost: that of its run, and of two measurements.
Caveat: a cell may be done in several sittings by several workers; each step here asks first whether
an earlier sitting has done it.
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
from statetrace.studies.grid import Cell
from statetrace.training.callback import Callback

Stop = Callable[[], bool]
Work = Callable[[Study, Cell, Stop], dict[str, Any] | None]
"""What is done with a cell: returns what the table should say, or None where it was stopped."""


class Until(Callback):
    """Stops a run when asked to, or behind a step of its last stage."""

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
    """From wherever the cell stands to its end."""
    from statetrace.studies.evaluate import measure
    from statetrace.training.loop import train

    recipe, rules, run = Recipe.of(dict(cell.recipe)), study.plan.rules, study.run(cell)
    device = recipe.training.device
    last = recipe.stages[-1]
    full = rules.verdict == "full"
    early = study.early(cell)
    if early is None and rules.early < last.training.steps:
        step = rules.early
        if checkpoint_damage(run.checkpoint(step)) is not None:
            reached = train(recipe, run, Until(step, stop), resume=True)
            if not reached.finished and (reached.stage != last.label or reached.step < step):
                return None
            step = reached.step
        early = measure(run, step, device, full and not rules.train_on)
        study.write_early(cell, early)
    if early is not None and not rules.train_on:
        return row(run, early, early)
    outcome = train(recipe, run, Until(None, stop), resume=True)
    if not outcome.finished:
        return None
    return row(run, early, measure(run, outcome.step, device, full))


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
    """A cell that costs nothing, to see what the machinery around it costs; it leaves a line each
    time it is done, which says whether the cell had ended before."""
    repeated = study.outcome(cell) is not None
    with (study.path / "cells" / f"{cell.name}.done").open("a") as file:
        file.write(f"{os.getpid()} {'repeated' if repeated else 'open'}\n")
    return {"early": {}, "final": {}, "cost": {"seconds": 0.0}}


KINDS: dict[str, Work] = {"train": train_cell, "nothing": do_nothing}


def check_cells(study: Study) -> None:
    """Refuse models and groups that do not exist before anything is trained: a study of a thousand
    cells should not find out one by one."""
    from statetrace.groups import group
    from statetrace.models.from_recipe import model_spec

    if study.plan.rules.work != "train":
        return
    seen = set()
    for cell in study.plan.cells:
        recipe = Recipe.of(dict(cell.recipe))
        key = (recipe.model.__class__, str(recipe.model), recipe.task.group, recipe.task.notation)
        if key in seen:
            continue
        seen.add(key)
        try:
            model_spec(recipe)
            group(recipe.task.group, recipe.task.notation)
        except StatetraceError as error:
            raise StatetraceError(f"cell '{cell.name}': {error}") from None
