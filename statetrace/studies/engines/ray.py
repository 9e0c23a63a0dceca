"""The Ray engine: workers as Ray tasks, on an existing cluster or on one started here.

Ray places them and lets small models share a GPU. Leases in the study folder decide who works on
which cell and what happens after a crash, so a lost worker or node costs only the steps since the
last checkpoint.

Cost: a few seconds to start a cluster; next to nothing per cell.
Caveat: every node needs the study folder under the same path and statetrace installed. After the
loss of a whole node its cells wait for `leases.STALE` seconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.studies.engines.local import cores, default_jobs
from statetrace.studies.folder import Study


def _ray() -> Any:
    # must be set before the import; no usage statistics
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # else every worker warns about tasks without GPUs
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise StatetraceError("engine 'ray' needs Ray; pip install 'statetrace[ray]'") from None
    return ray


def _work(path: str) -> int:
    """The body of a Ray task."""
    import torch

    from statetrace.studies.worker import work

    torch.set_num_threads(1)
    return work(Study.existing(Path(path)))


class RayPool:
    """Ray tasks that run `work`."""

    def __init__(
        self, study: Study, jobs: int | None, gpus_per_run: float | None, address: str | None
    ) -> None:
        self._ray = ray = _ray()
        self._path = str(study.path)
        options: dict[str, Any] = {"address": address or "local", "log_to_driver": False}
        if address is None:
            # each task takes one CPU, so this limits how many run at once
            options |= {"num_cpus": jobs or cores(), "include_dashboard": False}
        try:
            ray.init(**options, logging_level="ERROR", ignore_reinit_error=False)
        except Exception as error:  # of many types, a plain Exception if its raylet dies
            where = f"at '{address}'" if address else "on this machine"
            first = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
            token = "; if it requires authentication, set RAY_AUTH_TOKEN"
            hint = token if address else "; run the same command again"
            raise StatetraceError(f"no Ray cluster answers {where}: {first}{hint}") from None
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0)) if gpus_per_run != 0 else 0
        share = (gpus_per_run or 1.0) if gpus else 0
        self.size = jobs or default_jobs(int(resources.get("CPU", 1)), gpus, gpus_per_run)
        # no retries by Ray, which does not know the leases; supervise.py restarts workers
        self._task = ray.remote(num_cpus=1, num_gpus=share, max_retries=0)(_work)
        self._tasks: list[Any] = []
        self._dead: list[str] = []

    def start(self) -> None:
        self._tasks.append(self._task.remote(self._path))

    def running(self) -> int:
        self._reap()
        return len(self._tasks)

    def deaths(self) -> list[str]:
        self._reap()
        reasons, self._dead = self._dead, []
        return reasons

    def _reap(self) -> None:
        if not self._tasks:
            return
        done, self._tasks = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)
        for task in done:
            try:
                self._ray.get(task)
            except self._ray.exceptions.RayError as error:
                lines = [line for line in str(error).splitlines() if line.strip()]
                self._dead.append(f"{type(error).__name__}: {lines[0] if lines else ''}"[:300])

    def close(self) -> None:
        if not self._ray.is_initialized():
            return
        for task in self._tasks:
            self._ray.cancel(task, force=False)  # like Ctrl-C: the lease is released
        if self._tasks:
            self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=5)
        self._ray.shutdown()
