"""Keep enough workers on a study until every cell has ended.

An engine is a pool of workers: it starts them and reports which died. What remains to be done is in
the study folder, so nothing is lost when a driver dies, and several drivers may share a study.

Cost: reads the folder at intervals, which grow with the time that a reading takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from statetrace.errors import StatetraceError
from statetrace.runs import OnMessage, no_message
from statetrace.studies.folder import Study
from statetrace.studies.survey import CellState, Survey

POLL = 0.5
"""Least seconds between two readings of the folder; reading takes at most a tenth of the time."""

STILLBORN = 5
"""Workers that may die in a row without any progress in the study."""


class WorkerPool(Protocol):
    """The workers an engine runs.

    Attributes:
        size: most workers at once.
    """

    size: int

    def start(self) -> None:
        """Start one more worker."""
        ...

    def running(self) -> int:
        """Number of workers, including those about to start."""
        ...

    def deaths(self) -> list[str]:
        """Why workers died since the last call; those that ended normally are not included."""
        ...

    def close(self) -> None:
        """Stop all workers; they may take a moment to write a checkpoint."""
        ...


Watcher = Callable[[tuple[CellState, ...]], None]


def supervise(
    study: Study,
    pool: WorkerPool,
    watch: Watcher = lambda states: None,
    on_message: OnMessage = no_message,
) -> tuple[CellState, ...]:
    """Run until every cell has ended; returns their states. The pool is always closed."""
    survey = Survey(study)
    before, stillborn = None, 0
    ended = {state.cell.name for state in survey.look() if state.ended}
    try:
        while True:
            began = time.perf_counter()
            states = survey.look()
            reading = time.perf_counter() - began
            watch(states)
            _report_damage(states, ended, on_message)
            if all(state.ended for state in states):
                return states
            deaths = pool.deaths()
            for why in deaths:
                on_message(f"a worker died ({why}); its cell resumes from its last checkpoint")
            progress = [(state.state, state.step) for state in states]
            stillborn = stillborn + len(deaths) if progress == before else 0
            before = progress
            if stillborn >= STILLBORN:
                raise StatetraceError(
                    f"{stillborn} workers died before they did anything, the last one with: "
                    f"{deaths[-1] if deaths else 'no message'}"
                )
            _refill(pool, states)
            time.sleep(max(POLL, 9 * reading))
    finally:
        pool.close()


def _report_damage(states: tuple[CellState, ...], ended: set[str], on_message: OnMessage) -> None:
    """Pass on the messages about damaged files of cells that have ended since the last call."""
    for state in states:
        if state.outcome is not None and state.cell.name not in ended:
            ended.add(state.cell.name)
            for sentence in state.outcome.get("damages", ()):
                on_message(sentence)


def _refill(pool: WorkerPool, states: tuple[CellState, ...]) -> None:
    """Start workers for the open cells: one per cell that runs or can be leased."""
    workers = pool.running()
    open_cells = sum(state.open for state in states)
    running = sum(state.state == "running" for state in states)
    busy = min(workers, running)  # other drivers may run cells too
    for _ in range(min(pool.size, open_cells + busy) - workers):
        pool.start()
