"""A worker: claims one cell after the other until there is none left to claim.

Every engine runs this and nothing else, so what a crash means is the same on all of them: the claim
is found to be dead, another worker takes the cell up at its last checkpoint.

Cost: per cell, a few small files.
Caveat: a cell that takes its worker with it (out of memory, say) counts as failed each time it does
so without having got any further; a cell that advances between crashes goes on.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable

from statetrace.studies import claims
from statetrace.studies.cell import KINDS, Work
from statetrace.studies.claims import Claim
from statetrace.studies.folder import FAILED, FINISHED, Study
from statetrace.studies.grid import Cell

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
    perform = KINDS[study.plan.rules.work]
    ended = 0
    while not stop():
        over = study.ended()
        tried = False
        for cell in cells:
            if stop():
                return ended
            if cell.name in over:
                continue
            claim = claims.take(study.path / "claims", cell.name)
            if claim is None:
                continue
            tried = True
            try:
                with claim:
                    ended += _attempt(study, cell, claim, perform, stop, told)
            except ClaimLost:
                told(f"{cell.name}: another worker has taken it over")
        if not tried:
            break
    return ended


def _attempt(
    study: Study,
    cell: Cell,
    claim: Claim,
    perform: Work,
    stop: Callable[[], bool],
    told: Callable[[str], None],
) -> bool:
    """One try; whether the cell ended with it."""
    if study.outcome(cell) is not None:  # since we last looked
        return False
    if claim.before is not None:
        study.add_failure(cell, f"its worker ({claim.before}) died", str(claim.before))
    if study.gave_up(cell):
        return _fail(study, cell, told)

    def should_stop() -> bool:
        if claim.lost:
            raise ClaimLost
        return stop()

    told(f"{cell.name}: begun")
    try:
        found = perform(study, cell, should_stop)
    except Exception as error:
        _own(claim)
        kind = type(error).__name__
        why = str(error) if kind.startswith(("Statetrace", "NonFinite")) else f"{kind}: {error}"
        study.add_failure(cell, why, str(claim.owner))
        (study.path / "failures" / f"{cell.name}.txt").write_text(traceback.format_exc()[-TRACE:])
        if study.gave_up(cell):
            return _fail(study, cell, told)
        told(f"{cell.name}: failed and will be tried again: {why}")
        return False
    _own(claim)
    if found is None:
        told(f"{cell.name}: stopped; it will go on from its last checkpoint")
        return False
    study.end(cell, FINISHED, found)
    told(f"{cell.name}: finished")
    return True


def _own(claim: Claim) -> None:
    if not claim.is_ours():
        raise ClaimLost


def _fail(study: Study, cell: Cell, told: Callable[[str], None]) -> bool:
    why = study.failures(cell)[-1]["why"]
    study.end(cell, FAILED, {"why": why, "early": study.early(cell) or {}})
    told(f"{cell.name}: failed: {why}")
    return True
