"""Cells that differ only in their seed, trained as one batch (stacked.py).

Cost: that of the stacked training; evaluations run one cell after the other.
Caveat: a cell that failed in a batch is trained alone the next time, so that one seed whose loss
diverges does not fail the others twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.studies.cell import Stop, row
from statetrace.studies.folder import Study
from statetrace.studies.grid import SEED, Cell


def seed_batches(study: Study, cells: Iterable[Cell]) -> list[list[Cell]]:
    """Batches of two or more cells: equal but for the seed, at the same step, at most as many as
    the study allows."""
    from statetrace.studies.stacked import why_not

    most = study.plan.settings.together
    alike: dict[str, list[Cell]] = {}
    for cell in cells:
        if any(not failure["died"] for failure in study.failures(cell)):
            continue
        training = {k: v for k, v in cell.recipe["training"].items() if k != SEED}
        same = json.dumps([dict(cell.recipe) | {"training": training}, study.position(cell)])
        alike.setdefault(same, []).append(cell)
    batches = []
    for group in alike.values():
        if len(group) > 1 and why_not(Recipe.of(dict(group[0].recipe))) is None:
            batches += [group[at : at + most] for at in range(0, len(group), most)]
    return [batch for batch in batches if len(batch) > 1]


def train_cells(study: Study, cells: list[Cell], stop: Stop) -> list[dict[str, Any]] | None:
    """As `train_cell`, for a batch; None where it was stopped."""
    from statetrace.studies.evaluate import evaluate_checkpoint
    from statetrace.studies.stacked import train_together

    settings = study.plan.settings
    recipes = [Recipe.of(dict(cell.recipe)) for cell in cells]
    runs = [study.run(cell) for cell in cells]
    steps, device = recipes[0].stages[-1].training.steps, recipes[0].training.device
    full = settings.verdict == "full"
    if settings.early < steps and any(study.early(cell) is None for cell in cells):
        if train_together(recipes, runs, settings.early, stop) < settings.early:
            return None
        for cell, run in zip(cells, runs, strict=True):
            if study.early(cell) is None:
                record = evaluate_checkpoint(
                    run, settings.early, device, full and not settings.train_on
                )
                study.write_early(cell, record)
    early = [study.early(cell) for cell in cells]
    if settings.early < steps and not settings.train_on:
        return [row(run, record, record or {}) for run, record in zip(runs, early, strict=True)]
    if train_together(recipes, runs, None, stop) < steps:
        return None
    return [
        row(run, record, evaluate_checkpoint(run, steps, device, full))
        for run, record in zip(runs, early, strict=True)
    ]
