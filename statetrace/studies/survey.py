"""The status of a study, read from its folder, on any machine that shares it.

Cost: a few file operations per cell that has not ended; ended ones are read once. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.files import parse_json
from statetrace.runs import Run
from statetrace.studies import leases
from statetrace.studies.folder import Study
from statetrace.studies.grid import Cell

RUNNING, WAITING, INTERRUPTED, RETRY = "running", "waiting", "interrupted", "to be retried"
LEAST_SHARE = 0.02
"""Share of a cell's steps from which its pace counts."""

TAIL = 8192
"""Bytes read from the end of a log to find the latest step."""


@dataclass(frozen=True)
class CellState:
    """Attributes:
    state: finished, failed, running, waiting, interrupted (its worker died) or to be retried.
    step: the latest logged one, of `steps` in all its stages; None before the first.
    worker: which one holds it.
    why: the latest failure.
    outcome: of a finished or failed cell.
    early: the early evaluation.
    planned: steps of all its stages.
    pace: seconds per planned step so far; None where it has not come far enough to tell.
    """

    cell: Cell
    state: str
    step: int | None = None
    steps: int | None = None
    worker: str | None = None
    why: str | None = None
    outcome: dict[str, Any] | None = None
    early: dict[str, Any] | None = None
    planned: int = 0
    pace: float | None = None

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def open(self) -> bool:
        return self.state in (WAITING, INTERRUPTED, RETRY)


class Survey:
    """Reads the folder repeatedly, but each ended cell only once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._ended: dict[str, CellState] = {}

    def look(self) -> tuple[CellState, ...]:
        ended = self._study.ended()
        return tuple(self._state(cell, cell.name in ended) for cell in self._study.plan.cells)

    def _state(self, cell: Cell, ended: bool) -> CellState:
        if cell.name in self._ended:
            return self._ended[cell.name]
        outcome = self._study.outcome(cell) if ended else None
        planned = sum(_steps(cell).values())
        if outcome is not None:
            # of the last attempt, or of all sessions of training
            seconds = max(outcome.get("seconds", 0), outcome.get("cost", {}).get("seconds", 0))
            self._ended[cell.name] = CellState(
                cell,
                outcome["state"],
                step=outcome.get("final", {}).get("step"),
                why=outcome.get("why"),
                outcome=outcome,
                early=outcome.get("early") or None,
                planned=planned,
                pace=seconds / planned if seconds else None,
            )
            return self._ended[cell.name]
        lease = leases.latest(self._study.path / "claims", cell.name)
        if lease is None:
            return CellState(cell, WAITING, planned=planned)
        damaged = self._study.damaged(cell)
        failures = self._study.failures(cell)
        why = damaged or (failures[-1]["why"] if failures else None)
        worker, state = None, RETRY if failures or damaged else WAITING
        if not lease.is_open():
            worker, state = str(lease.owner), RUNNING
        elif not lease.released:
            why, state = damaged or f"its worker ({lease.owner}) died", INTERRUPTED
        run, early = self._study.run(cell), self._study.early(cell)
        step, steps = _progress(cell, run)
        pace = _pace(cell, run, step, planned) if state == RUNNING and step else None
        return CellState(cell, state, step, steps, worker, why, None, early, planned, pace)


def _pace(cell: Cell, run: Run, step: int, planned: int) -> float | None:
    """Seconds per step in the current session of a run, where `step` counts those of all stages;
    None where it has just begun."""
    try:
        session = run.info["sessions"][-1]
        began = datetime.fromisoformat(session["started"])
        done = step - _overall(_steps(cell), session.get("from_stage"), int(session["from_step"]))
    except (StatetraceError, OSError, LookupError, ValueError, TypeError):
        return None  # it is being written
    seconds = (datetime.now(UTC) - began).total_seconds()
    return seconds / done if done >= LEAST_SHARE * planned else None


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
            record = parse_json(line)
            stage, step = record.get("stage"), int(record["step"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # half a line, at either end
        return _overall(steps, stage, step), total
    return None, total


def _overall(steps: dict[str | None, int], stage: str | None, step: int) -> int:
    """A step of a stage, counted from the first step of the first stage."""
    names = list(steps)
    return step + sum(steps[name] for name in names[: names.index(stage) if stage in steps else 0])


def _steps(cell: Cell) -> dict[str | None, int]:
    """Stage -> its steps, without building the recipe (there may be thousands of cells)."""
    steps = int(cell.recipe["training"]["steps"])
    stages = cell.recipe.get("stage") or []
    if len(stages) < 2:
        return {None: int(stages[0].get("steps", steps)) if stages else steps}
    return {
        f"{number}-{stage.get('objective', 'state')}": int(stage.get("steps", steps))
        for number, stage in enumerate(stages, start=1)
    }


def tally(states: Sequence[CellState]) -> dict[str, int]:
    """State -> number of cells, in a fixed order, without states that have none."""
    order = ("finished", "failed", RUNNING, RETRY, INTERRUPTED, WAITING)
    counts = {name: sum(cell.state == name for cell in states) for name in order}
    return {name: count for name, count in counts.items() if count}


def remaining_seconds(states: Sequence[CellState]) -> float | None:
    """Time until every cell has ended; None where no cell has come far enough to tell.

    Cells that have not begun take the mean time per step of those that have, evaluations included.
    As many cells are trained at once as now; if none is, one.
    """
    measured = [state for state in states if state.pace is not None]
    steps = sum(state.planned for state in measured)
    unfinished = [state for state in states if not state.ended]
    if not unfinished:
        return 0.0
    if not steps:
        return None
    mean = sum((state.pace or 0.0) * state.planned for state in measured) / steps
    left = [
        (mean if state.pace is None else state.pace) * max(0, state.planned - (state.step or 0))
        for state in unfinished
    ]
    running = sum(state.state == RUNNING for state in states)
    return max(*left, sum(left) / max(1, running)) if len(left) > 1 else left[0]
