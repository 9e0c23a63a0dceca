"""A worker: leases one cell after the other until none is left.

Every engine runs this, so a crash has the same consequence on all of them: the lease expires, and
another worker resumes the cell at its last checkpoint.

Cost: a few small files per cell.
Caveat: a cell that kills its worker (out of memory, say) counts as failed each time this happens
without progress; a cell that advances between crashes continues.
"""

from __future__ import annotations

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Iterable

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.files import WriteError
from statetrace.runs import OnMessage, no_message
from statetrace.studies import leases
from statetrace.studies.cell import KINDS
from statetrace.studies.folder import FAILED, FINISHED, Study
from statetrace.studies.grid import SEED, Cell
from statetrace.studies.leases import Lease

TRACE = 4000
"""Characters of a traceback that are stored."""


class LeaseLost(BaseException):
    """Another worker has the cell: stop at once. Not an Exception, so that nothing between the
    training loop and the worker catches it."""


def never() -> bool:
    return False


def work(
    study: Study,
    stop: Callable[[], bool] = never,
    only: Iterable[str] | None = None,
    on_message: OnMessage = no_message,
) -> int:
    """Process cells until none can be leased or `stop` returns True; returns how many ended here.

    Args:
        only: names of the cells to process; all by default.
        on_message: called when a cell begins and ends.
    """
    cells = study.plan.cells if only is None else tuple(study.cell(name) for name in only)
    ended = 0
    while not stop():
        finished = study.ended()
        leased = False
        for batch in _batches(study, [cell for cell in cells if cell.name not in finished]):
            if stop():
                return ended
            held = _take(study, batch)
            leased = leased or bool(held)
            try:
                with contextlib.ExitStack() as stack:
                    for _, lease in held:
                        stack.enter_context(lease)
                    ended += _attempt(study, held, stop, on_message)
            except LeaseLost:
                names = ", ".join(cell.name for cell, _ in held)
                on_message(f"{names}: another worker has taken over")
        if not leased:
            break
    return ended


def _take(study: Study, batch: Iterable[Cell]) -> list[tuple[Cell, Lease]]:
    """Lease the cells of a batch that have not ended yet.

    Nothing is leased if another worker holds the first of them, so that two workers that start at
    the same time do not split a batch."""
    held: list[tuple[Cell, Lease]] = []
    for cell in batch:
        if study.outcome(cell) is not None:
            continue
        lease = leases.take(study.path / "claims", cell.name)
        if lease is not None:
            held.append((cell, lease))
        elif not held:
            break
    return held


def _batches(study: Study, cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that are processed together: one at a time, unless the study trains seeds together.
    Then cells that are equal but for the seed and at the same step form a batch. A cell that failed
    in a batch is trained alone the next time, so that one seed whose loss diverges does not fail
    the others twice."""
    settings = study.plan.settings
    if settings.together == 1 or settings.work != "train":
        return [[cell] for cell in cells]
    from statetrace.studies.stacked import why_not

    alike: dict[str, list[Cell]] = {}
    for cell in cells:
        training = {k: v for k, v in cell.recipe["training"].items() if k != SEED}
        same = json.dumps([dict(cell.recipe) | {"training": training}, study.position(cell)])
        failed = any(not failure["died"] for failure in study.failures(cell))
        alike.setdefault(cell.name if failed else same, []).append(cell)
    batches = []
    for group in alike.values():
        stackable = len(group) > 1 and why_not(Recipe.of(dict(group[0].recipe))) is None
        most = settings.together if stackable else 1
        batches += [group[at : at + most] for at in range(0, len(group), most)]
    return sorted(batches, key=lambda batch: len(batch) == 1)  # larger batches first


def _attempt(
    study: Study,
    held: list[tuple[Cell, Lease]],
    stop: Callable[[], bool],
    on_message: OnMessage,
) -> int:
    """One attempt; returns how many cells ended with it."""
    ended = 0
    left: list[tuple[Cell, Lease]] = []
    for cell, lease in held:
        if study.outcome(cell) is not None:  # it ended before the lease was taken
            continue
        if lease.before is not None:
            why = f"its worker ({lease.before}) died"
            study.add_failure(cell, why, str(lease.before), died=True)
        if study.gave_up(cell):
            ended += _fail(study, cell, on_message)
        else:
            left.append((cell, lease))
            on_message(f"{cell.name}: started")
    if not left:
        return ended

    def should_stop() -> bool:
        if any(lease.lost for _, lease in left):
            raise LeaseLost
        return stop()

    began = time.perf_counter()
    try:
        rows = KINDS[study.plan.settings.work](study, [cell for cell, _ in left], should_stop)
    except WriteError:
        raise  # says nothing about the cell
    except Exception as error:
        _check_held(left)
        failed = [_record_failure(study, cell, lease, error, on_message) for cell, lease in left]
        return ended + sum(failed)
    _check_held(left)
    if rows is None:
        for cell, _ in left:
            on_message(f"{cell.name}: stopped; it will resume from its last checkpoint")
        return ended
    seconds = round(time.perf_counter() - began, 3)
    for (cell, _), row in zip(left, rows, strict=True):
        study.end(cell, FINISHED, row | {"seconds": seconds})
        on_message(f"{cell.name}: finished")
    return ended + len(left)


def _record_failure(
    study: Study, cell: Cell, lease: Lease, error: Exception, on_message: OnMessage
) -> bool:
    """Store why an attempt failed; returns whether it was the last one."""
    kind = type(error).__name__
    why = str(error) if isinstance(error, StatetraceError) else f"{kind}: {error}"
    study.add_failure(cell, why, str(lease.owner))
    trace = "".join(traceback.format_exception(error))[-TRACE:]
    (study.path / "failures" / f"{cell.name}.txt").write_text(trace)
    if study.gave_up(cell):
        return _fail(study, cell, on_message)
    on_message(f"{cell.name}: failed and will be tried again: {why}")
    return False


def _check_held(left: list[tuple[Cell, Lease]]) -> None:
    if not all(lease.is_ours() for _, lease in left):
        raise LeaseLost


def _fail(study: Study, cell: Cell, on_message: OnMessage) -> bool:
    why = study.failures(cell)[-1]["why"]
    study.end(cell, FAILED, {"why": why, "early": study.early(cell) or {}})
    on_message(f"{cell.name}: failed: {why}")
    return True
