"""Keep enough workers on a study until every cell has ended, whatever happens to them.

An engine is a pool of workers; all it can do is start one and say which are gone. What is to be
done is in the study folder, so a driver that dies loses nothing, and several drivers may share a
study.

Cost: one look at the folder now and then, less often the longer it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study
from statetrace.studies.survey import CellState, Survey

POLL = 0.5
"""Seconds between looks, at the least; looking may take a tenth of the time."""

STILLBORN = 5
"""Workers that may die in a row while nothing changes in the study."""


class WorkerPool(Protocol):
    """The workers an engine runs.

    Attributes:
        size: how many there may be at once.
    """

    size: int

    def start(self) -> None:
        """One more worker."""
        ...

    def running(self) -> int:
        """How many there are, counting those about to begin."""
        ...

    def deaths(self) -> list[str]:
        """Why workers died since last asked; those that ended in order are not mentioned."""
        ...

    def close(self) -> None:
        """Stop all workers; they may take a moment to write a checkpoint."""
        ...


Watcher = Callable[[tuple[CellState, ...]], None]


def supervise(
    study: Study,
    pool: WorkerPool,
    watch: Watcher = lambda states: None,
    told: Callable[[str], None] = lambda sentence: None,
) -> tuple[CellState, ...]:
    """Until every cell has ended; how they did. The pool is closed however this ends."""
    survey = Survey(study)
    before, stillborn = None, 0
    try:
        while True:
            began = time.perf_counter()
            states = survey.look()
            watch(states)
            if all(one.ended for one in states):
                return states
            deaths = pool.deaths()
            for why in deaths:
                told(f"a worker died ({why}); its cell goes on from its last checkpoint")
            outline = [(one.state, one.step) for one in states]
            stillborn = stillborn + len(deaths) if outline == before else 0
            before = outline
            if stillborn >= STILLBORN:
                raise StatetraceError(
                    f"{stillborn} workers died before they did anything, the last one with: "
                    f"{deaths[-1] if deaths else 'no words'}"
                )
            _refill(pool, states)
            time.sleep(max(POLL, 9 * (time.perf_counter() - began)))
    finally:
        pool.close()


def _refill(pool: WorkerPool, states: tuple[CellState, ...]) -> None:
    """As many workers as there is work for: one per cell that runs or can be claimed."""
    there = pool.running()
    open_cells = sum(one.claimable for one in states)
    busy = min(there, sum(one.state == "running" for one in states))  # others may run cells too
    for _ in range(min(pool.size, open_cells + busy) - there):
        pool.start()
