"""How a study stands, read from its folder alone: from any terminal, on any machine that sees it.

Cost: a few file operations per cell that has not ended; ended ones are read once. Needs no torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from statetrace.runs import Run
from statetrace.studies import leases as claims
from statetrace.studies.folder import Study
from statetrace.studies.grid import Cell

RUNNING, WAITING, INTERRUPTED, RETRY = "running", "waiting", "interrupted", "to be retried"
TAIL = 8192
"""Bytes of a log that are read to see how far a run is."""


@dataclass(frozen=True)
class CellState:
    """Attributes:
    state: finished, failed, running, waiting, interrupted (its worker died) or to be retried.
    step: the latest that was logged, of `steps` in all its stages; None before the first.
    worker: who has it.
    why: the last thing that went wrong.
    outcome: what a finished or failed cell left.
    early: what was measured at the early verdict, which a cell may long have behind it.
    """

    cell: Cell
    state: str
    step: int | None = None
    steps: int | None = None
    worker: str | None = None
    why: str | None = None
    outcome: dict[str, Any] | None = None
    early: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def claimable(self) -> bool:
        return self.state in (WAITING, INTERRUPTED, RETRY)


class Survey:
    """Looks again and again without reading again what cannot change."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._ended: dict[str, CellState] = {}

    def look(self) -> tuple[CellState, ...]:
        over = self._study.ended()
        return tuple(self._state(cell, cell.name in over) for cell in self._study.plan.cells)

    def _state(self, cell: Cell, over: bool) -> CellState:
        if cell.name in self._ended:
            return self._ended[cell.name]
        outcome = self._study.outcome(cell) if over else None
        if outcome is not None:
            done = outcome.get("final", {}).get("step")
            state = outcome["state"]
            early = outcome.get("early") or None
            found = CellState(cell, state, done, None, None, outcome.get("why"), outcome, early)
            self._ended[cell.name] = found
            return found
        held = claims.latest(self._study.path / "claims", cell.name)
        if held is None:
            return CellState(cell, WAITING)
        damaged = self._study.damaged(cell)
        failures = self._study.failures(cell)
        why = damaged or (failures[-1]["why"] if failures else None)
        worker, state = None, RETRY if failures or damaged else WAITING
        if not held.is_open():
            worker, state = str(held.owner), RUNNING
        elif not held.released:
            why, state = damaged or f"its worker ({held.owner}) died", INTERRUPTED
        step, steps = _progress(cell, self._study.run(cell))
        return CellState(cell, state, step, steps, worker, why, None, self._study.early(cell))


def _progress(cell: Cell, run: Run) -> tuple[int | None, int | None]:
    """(step, steps) over all stages, from the end of the log."""
    steps = _steps(cell)
    total = sum(steps.values())
    try:
        with (run.path / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None, total
    for line in reversed(lines):
        try:
            record = json.loads(line)
            stage, step = record.get("stage"), int(record["step"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # half a line, at either end
        names = list(steps)
        before = sum(steps[name] for name in names[: names.index(stage)]) if stage in steps else 0
        return before + step, total
    return None, total


def _steps(cell: Cell) -> dict[str | None, int]:
    """Stage -> its steps, without making the recipe (there may be thousands of cells)."""
    steps = int(cell.recipe["training"]["steps"])
    stages = cell.recipe.get("stage") or []
    if len(stages) < 2:
        return {None: int(stages[0].get("steps", steps)) if stages else steps}
    return {
        f"{number}-{stage.get('objective', 'state')}": int(stage.get("steps", steps))
        for number, stage in enumerate(stages, start=1)
    }


def tally(states: tuple[CellState, ...]) -> dict[str, int]:
    """State -> how many cells are in it, in a fixed order, empty ones left out."""
    order = ("finished", "failed", RUNNING, RETRY, INTERRUPTED, WAITING)
    counts = {name: sum(one.state == name for one in states) for name in order}
    return {name: count for name, count in counts.items() if count}
