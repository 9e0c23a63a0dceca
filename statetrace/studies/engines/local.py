"""The local engine: worker processes on this machine.

One worker per core, or per share of a GPU where there are GPUs, each with one thread: with more
threads than cores, processes spend most of their time waiting for each other.

Cost: a worker takes a few seconds to start, once for all its cells.
Caveat: a worker stops, with a checkpoint, when its driver is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO

from statetrace.studies.folder import Study

PATIENCE = 60.0
"""Seconds that a worker has to write its checkpoint before it is killed."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
MESSAGE = 300
"""Characters of a dead worker's stderr that are reported."""


@dataclass(frozen=True)
class Worker:
    process: subprocess.Popen[bytes]
    place: int
    stderr: IO[bytes]


class LocalPool:
    """Processes that run `statetrace study work`."""

    def __init__(self, study: Study, jobs: int | None, gpus_per_run: float | None) -> None:
        self._study = study
        self._devices = _devices() if gpus_per_run != 0 else []
        self.size = jobs or default_jobs(cores(), len(self._devices), gpus_per_run)
        self._workers: list[Worker] = []

    def start(self) -> None:
        taken = {worker.place for worker in self._workers}
        place = next(number for number in range(self.size) if number not in taken)
        environment = os.environ | dict.fromkeys(THREADS, "1")
        if self._devices:
            environment["CUDA_VISIBLE_DEVICES"] = self._devices[place % len(self._devices)]
        command = [sys.executable, "-m", "statetrace", "study", "work", str(self._study.path)]
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the worker)
        process = subprocess.Popen(
            [*command, "--with-parent"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C goes to the driver, which stops its workers
        )
        self._workers.append(Worker(process, place, stderr))

    def running(self) -> int:
        return sum(worker.process.poll() is None for worker in self._workers)

    def deaths(self) -> list[str]:
        gone = [worker for worker in self._workers if worker.process.poll() is not None]
        self._workers = [worker for worker in self._workers if worker not in gone]
        reasons = []
        for worker in gone:
            worker.stderr.seek(0)
            lines = worker.stderr.read().decode(errors="replace").strip().splitlines()
            message = lines[-1][-MESSAGE:] if lines else ""
            worker.stderr.close()
            code = worker.process.returncode
            if code:
                how = f"signal {-code}" if code < 0 else f"status {code}"
                suffix = f": {message}" if message else ""
                reasons.append(f"process {worker.process.pid}, {how}{suffix}")
        return reasons

    def close(self) -> None:
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.terminate()
        for worker in self._workers:
            try:
                worker.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self.deaths()


def cores() -> int:
    """Cores that this process may use; a container or a batch system may limit them."""
    if not hasattr(os, "sched_getaffinity"):  # macOS
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))


def default_jobs(cores: int, gpus: int, gpus_per_run: float | None) -> int:
    """One run per core; with GPUs, as many as share them, but never more than cores."""
    if not gpus:
        return max(1, cores)
    each = int(1 / (gpus_per_run or 1.0) + 1e-9)
    return max(1, min(cores, gpus * each))


def _devices() -> list[str]:
    """The GPUs that this process may use, named as in CUDA_VISIBLE_DEVICES."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = named.split(",") if named else [str(number) for number in range(count)]
    return names[:count]
