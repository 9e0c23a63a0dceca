"""When a study will be done, from the time that its cells have taken so far."""

from __future__ import annotations

from collections.abc import Sequence

from statetrace.studies.survey import RUNNING, CellState


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
