"""Engines: where the workers of a study run. Each is a WorkerPool (supervise.py)."""

from __future__ import annotations

from statetrace.config.checks import one_of, whole
from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study
from statetrace.studies.supervise import WorkerPool

ENGINES = ("local", "ray")


def check_engine(
    engine: str, jobs: int | None, gpus_per_run: float | None, address: str | None
) -> None:
    """Refuse settings of an engine before anything is written."""
    one_of("engine", engine, ENGINES)
    if jobs is not None:
        whole("jobs", jobs, 1)
    if gpus_per_run is not None and not (
        isinstance(gpus_per_run, int | float) and 0 <= gpus_per_run <= 1
    ):
        raise StatetraceError(
            f"gpus_per_run {gpus_per_run} is not a share of a GPU; use 0 to 1, such as 0.25 for "
            "four runs on each"
        )
    if engine == "local" and address is not None:
        raise StatetraceError(f"address '{address}' is for --engine ray; leave it out")


def make_pool(
    engine: str, study: Study, jobs: int | None, gpus_per_run: float | None, address: str | None
) -> WorkerPool:
    """The named engine; Ray is imported only if it is used."""
    check_engine(engine, jobs, gpus_per_run, address)
    if engine == "ray":
        from statetrace.studies.engines.ray import RayPool

        return RayPool(study, jobs, gpus_per_run, address)
    from statetrace.studies.engines.local import LocalPool

    return LocalPool(study, jobs, gpus_per_run)
