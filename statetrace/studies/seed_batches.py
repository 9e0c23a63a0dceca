"""Cells that differ only in their seed, done as one batched program (stacked.py).

Cost: that of the batched program; measurements are made one cell after the other.
Caveat: a cell that failed in company is done alone the next time, so that one seed whose loss
becomes infinite does not take the others with it twice.
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
    """Cells that may go together: equal but for the seed, and at the same step; at most as many as
    the study allows, and none alone."""
    from statetrace.studies.stacked import why_not

    most = study.plan.rules.together
    alike: dict[str, list[Cell]] = {}
    for cell in cells:
        if any(not failure["died"] for failure in study.failures(cell)):
            continue
        training = {k: v for k, v in cell.recipe["training"].items() if k != SEED}
        same = json.dumps([dict(cell.recipe) | {"training": training}, study.position(cell)])
        alike.setdefault(same, []).append(cell)
    found = []
    for group in alike.values():
        if len(group) > 1 and why_not(Recipe.of(dict(group[0].recipe))) is None:
            found += [group[at : at + most] for at in range(0, len(group), most)]
    return [group for group in found if len(group) > 1]


def train_cells(study: Study, cells: list[Cell], stop: Stop) -> list[dict[str, Any]] | None:
    """As `train_cell`, for all of them; None where they were stopped."""
    from statetrace.studies.evaluate import measure
    from statetrace.studies.stacked import train_together

    rules = study.plan.rules
    recipes = [Recipe.of(dict(cell.recipe)) for cell in cells]
    runs = [study.run(cell) for cell in cells]
    steps, device = recipes[0].stages[-1].training.steps, recipes[0].training.device
    full = rules.verdict == "full"
    if rules.early < steps and any(study.early(cell) is None for cell in cells):
        if train_together(recipes, runs, rules.early, stop) < rules.early:
            return None
        for cell, run in zip(cells, runs, strict=True):
            if study.early(cell) is None:
                found = measure(run, rules.early, device, full and not rules.train_on)
                study.write_early(cell, found)
    early = [study.early(cell) for cell in cells]
    if rules.early < steps and not rules.train_on:
        return [row(run, one, one or {}) for run, one in zip(runs, early, strict=True)]
    if train_together(recipes, runs, None, stop) < steps:
        return None
    return [
        row(run, one, measure(run, steps, device, full))
        for run, one in zip(runs, early, strict=True)
    ]
