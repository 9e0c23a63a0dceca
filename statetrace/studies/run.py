"""A study from its file to trained cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from statetrace.studies.cell import check_cells
from statetrace.studies.engines import make_pool
from statetrace.studies.folder import Study
from statetrace.studies.grid import read_study
from statetrace.studies.supervise import Watcher, supervise
from statetrace.studies.survey import CellState

OnMessage = Callable[[str], None]


def no_message(message: str) -> None:
    """Ignore messages."""


def prepare_study(
    file: Path, out: Path, retry_failed: bool = False, on_message: OnMessage = no_message
) -> Study:
    """Create the study folder of a study file, or continue the one in `out`; nothing is trained."""
    plan = read_study(file)
    check_cells(plan)
    study = Study.prepare(out, plan)
    if retry_failed:
        for name in study.forget_failed():
            on_message(f"{name}: will be tried again")
    return study


def run_study(
    study: Study,
    engine: str = "local",
    jobs: int | None = None,
    gpus_per_run: float | None = None,
    address: str | None = None,
    watch: Watcher = lambda states: None,
    on_message: OnMessage = no_message,
) -> tuple[CellState, ...]:
    """Train every cell; returns their states. `write_tables` (table.py) writes the results.

    Args:
        engine: "local", processes on this machine, or "ray".
        jobs: runs at once; by default as many as cores or GPUs allow.
        gpus_per_run: share of a GPU per run.
        address: of an existing Ray cluster.
        watch: called repeatedly with the states of all cells.
    """
    pool = make_pool(engine, study, jobs, gpus_per_run, address)
    return supervise(study, pool, watch, on_message)
