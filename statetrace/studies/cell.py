"""One cell, or several seeds of it as a batch: train to the early evaluation, evaluate, train to
the end, evaluate again.

The run stops at the early step with a checkpoint and is then resumed. Runs resume bit for bit, so
the final weights are those of an uninterrupted run.

Cost: the run, and two evaluations.
Caveat: several workers may process a cell one after the other; each step first checks whether an
earlier worker has done it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.runs import Run, checkpoint_damage
from statetrace.studies.folder import Study
from statetrace.studies.grid import Cell
from statetrace.training.callback import Until

Stop = Callable[[], bool]
Row = dict[str, Any]
Work = Callable[[Study, Sequence[Cell], Stop], list[Row] | None]
"""Processes cells: returns their rows of the table, or None where they were stopped."""


def train_cells(study: Study, cells: Sequence[Cell], stop: Stop) -> list[Row] | None:
    """Train and evaluate a cell, or several that differ only in their seed, from their last
    checkpoints to their end."""
    from statetrace.studies.evaluate import evaluate_checkpoints

    settings = study.plan.settings
    recipes = [Recipe.of(dict(cell.recipe)) for cell in cells]
    runs, damages = [study.run(cell) for cell in cells], Damages()
    device, kind = recipes[0].training.device, settings.verdict
    early = [study.early(cell) for cell in cells]
    evaluates_early = settings.early < recipes[0].stages[-1].training.steps
    if evaluates_early and None in early:
        step = _train_to(settings.early, recipes, runs, stop, damages)
        if step is None:
            return None
        missing = [number for number, record in enumerate(early) if record is None]
        last = not settings.train_on
        records = evaluate_checkpoints(
            [runs[n] for n in missing], step, device, kind if last else "quick", store=last
        )
        for number, record in zip(missing, records, strict=True):
            early[number] = record
            study.write_early(cells[number], record)
    if evaluates_early and not settings.train_on:
        return [
            _row(run, record, record or {}) | damages.of(run)
            for run, record in zip(runs, early, strict=True)
        ]
    step = _train_to(None, recipes, runs, stop, damages)
    if step is None:
        return None
    final = evaluate_checkpoints(runs, step, device, kind, store=True)
    return [
        _row(run, record, last) | damages.of(run)
        for run, record, last in zip(runs, early, final, strict=True)
    ]


class Damages(list[str]):
    """Sentences about damaged files that training restored or left out."""

    def of(self, run: Run) -> Row:
        """Those of one run, for its outcome."""
        damages = [each for each in self if f"{run.path}{os.sep}" in each and "damaged" in each]
        return {"damages": damages} if damages else {}


def _train_to(
    step: int | None, recipes: Sequence[Recipe], runs: Sequence[Run], stop: Stop, damages: Damages
) -> int | None:
    """Train to a step of the last stage, or to its end; returns the step, or None where training
    was stopped before it."""
    from statetrace.studies.stacked import train_together
    from statetrace.training.loop import train

    if step and all(checkpoint_damage(run.checkpoint(step)) is None for run in runs):
        return step
    callback = Until(step, stop, damages.append)
    if len(runs) > 1:
        outcome = train_together(recipes, runs, callback)
    else:
        outcome = train(recipes[0], runs[0], callback, resume=True)
    in_last_stage = outcome.stage == recipes[0].stages[-1].label
    reached = step is not None and in_last_stage and outcome.step >= step
    return outcome.step if outcome.finished or reached else None


def _row(run: Run, early: Row | None, final: Row) -> Row:
    info = run.info
    seconds = [session.get("seconds", 0.0) for session in info["sessions"]]
    cost = {
        "seconds": round(sum(seconds), 3),
        "device": info.get("hardware", {}).get("device"),  # not in a restored run.json
        "parameters": info.get("parameters"),
    }
    return {"early": early or final, "final": final, "cost": cost}


def do_nothing(study: Study, cells: Sequence[Cell], stop: Stop) -> list[Row] | None:
    """For measuring overhead: writes one line, which records whether the cell had ended before."""
    for cell in cells:
        repeated = study.outcome(cell) is not None
        with (study.path / "cells" / f"{cell.name}.done").open("a") as file:
            file.write(f"{os.getpid()} {'repeated' if repeated else 'open'}\n")
    return [{"early": {}, "final": {}, "cost": {"seconds": 0.0}} for _ in cells]


KINDS: dict[str, Work] = {"train": train_cells, "nothing": do_nothing}
