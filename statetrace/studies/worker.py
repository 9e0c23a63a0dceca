"""A worker: claims one cell after the other until there is none left to claim.

Every engine runs this and nothing else, so what a crash means is the same on all of them: the claim
is found to be dead, another worker takes the cell up at its last checkpoint.

Cost: per cell, a few small files.
Caveat: a cell that takes its worker with it (out of memory, say) counts as failed each time it does
so without having got any further; a cell that advances between crashes goes on.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.studies import leases as claims
from statetrace.studies.cell import KINDS, Stop
from statetrace.studies.folder import FAILED, FINISHED, Study
from statetrace.studies.grid import Cell
from statetrace.studies.leases import Lease
from statetrace.studies.seed_batches import seed_batches, train_cells

TRACE = 4000
"""Characters of a traceback that are kept."""


class ClaimLost(BaseException):
    """Someone else has our cell: leave it alone, at once. Not an Exception, as nothing between the
    training loop and the worker may mistake it for one of its own."""


def never() -> bool:
    return False


def work(
    study: Study,
    stop: Callable[[], bool] = never,
    only: Iterable[str] | None = None,
    told: Callable[[str], None] = lambda sentence: None,
) -> int:
    """Do cells until none can be claimed or `stop` says so; how many ended here.

    Args:
        only: names of the cells to look at; all by default.
        told: hears what is begun and how it ended.
    """
    cells = study.plan.cells if only is None else tuple(study.cell(name) for name in only)
    ended = 0
    while not stop():
        over = study.ended()
        tried = False
        for group in _groups(study, [cell for cell in cells if cell.name not in over]):
            if stop():
                return ended
            held = {cell.name: claims.take(study.path / "claims", cell.name) for cell in group}
            mine = [(cell, claim) for cell in group if (claim := held[cell.name]) is not None]
            tried = tried or bool(mine)
            try:
                with contextlib.ExitStack() as all_:
                    for _, claim in mine:
                        all_.enter_context(claim)
                    ended += _attempt(study, mine, stop, told)
            except ClaimLost:
                told(f"{', '.join(c.name for c, _ in mine)}: another worker has taken over")
        if not tried:
            break
    return ended


def _groups(study: Study, cells: list[Cell]) -> list[list[Cell]]:
    """Cells to be done at once: alone, unless the study lets seeds be trained together."""
    rules = study.plan.rules
    together = seed_batches(study, cells) if rules.together > 1 and rules.work == "train" else []
    taken = {cell.name for group in together for cell in group}
    return [*together, *([cell] for cell in cells if cell.name not in taken)]


def _attempt(
    study: Study,
    mine: list[tuple[Cell, Lease]],
    stop: Callable[[], bool],
    told: Callable[[str], None],
) -> int:
    """One try; how many cells ended with it."""
    ended = 0
    left: list[tuple[Cell, Lease]] = []
    for cell, claim in mine:
        if study.outcome(cell) is not None:  # since we last looked
            continue
        if claim.before is not None:
            why = f"its worker ({claim.before}) died"
            study.add_failure(cell, why, str(claim.before), died=True)
        if study.gave_up(cell):
            ended += _fail(study, cell, told)
        else:
            left.append((cell, claim))
            told(f"{cell.name}: begun")
    if not left:
        return ended

    def should_stop() -> bool:
        if any(claim.lost for _, claim in left):
            raise ClaimLost
        return stop()

    try:
        found = _perform(study, [cell for cell, _ in left], should_stop)
    except Exception as error:
        _own(left)
        return ended + sum(_note(study, cell, claim, error, told) for cell, claim in left)
    _own(left)
    if found is None:
        for cell, _ in left:
            told(f"{cell.name}: stopped; it will go on from its last checkpoint")
        return ended
    for (cell, _), about in zip(left, found, strict=True):
        study.end(cell, FINISHED, about)
        told(f"{cell.name}: finished")
    return ended + len(left)


def _perform(study: Study, cells: list[Cell], stop: Stop) -> list[dict[str, Any]] | None:
    if len(cells) > 1:
        return train_cells(study, cells, stop)
    found = KINDS[study.plan.rules.work](study, cells[0], stop)
    return None if found is None else [found]


def _note(
    study: Study, cell: Cell, claim: Lease, error: Exception, told: Callable[[str], None]
) -> bool:
    """Write down what went wrong; whether that was the last try."""
    kind = type(error).__name__
    why = str(error) if isinstance(error, StatetraceError) else f"{kind}: {error}"
    study.add_failure(cell, why, str(claim.owner))
    trace = "".join(traceback.format_exception(error))[-TRACE:]
    (study.path / "failures" / f"{cell.name}.txt").write_text(trace)
    if study.gave_up(cell):
        return _fail(study, cell, told)
    told(f"{cell.name}: failed and will be tried again: {why}")
    return False


def _own(left: list[tuple[Cell, Lease]]) -> None:
    if not all(claim.is_ours() for _, claim in left):
        raise ClaimLost


def _fail(study: Study, cell: Cell, told: Callable[[str], None]) -> bool:
    why = study.failures(cell)[-1]["why"]
    study.end(cell, FAILED, {"why": why, "early": study.early(cell) or {}})
    told(f"{cell.name}: failed: {why}")
    return True
