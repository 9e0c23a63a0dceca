"""A study of 10,000 small models on Ray, whose workers and drivers are killed repeatedly.

Every cell is trained for a few steps, written as a checkpoint and judged. Workers and drivers are
killed in turn with SIGKILL, and killed drivers are started again. In the end every cell must have
finished, and cells that are trained again without interruption must be equal byte for byte. Prints
cells per second, the overhead per cell, the memory of the driver, and the time of `study status`.

    python benchmarks/study_cells.py                                   # ten minutes on two cores
    python benchmarks/study_cells.py --address auto --jobs 64 --out /shared/study     # a cluster

On a cluster, run it on a node that has workers: only workers on the same machine are killed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from statetrace.studies import leases
from statetrace.studies.folder import FINISHED, Study, prepare_study
from statetrace.studies.grid import Cell
from statetrace.studies.worker import work

STUDY = """\
seeds = {cells}
early = {steps}
verdict = "quick"
[settings]
group = "Z2"
length = 2
model = "gpt2"
layers = 1
width = 8
heads = 1
sequences = 4
analysis_fraction = 0.5
steps = {steps}
batch = 2
device = "cpu"
evaluate_every = {steps}
evaluate_sequences = 2
checkpoint_every = {steps}
keep = 1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--engine", default="ray", choices=["local", "ray"])
    parser.add_argument("--address", help="of an existing Ray cluster; by default one is started")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--checked", type=int, default=20, help="cells trained again, to compare")
    parser.add_argument("--out", type=Path, help="the study folder; by default a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), options)


def run(folder: Path, options: argparse.Namespace) -> None:
    file, cells = folder / "study.toml", options.cells
    file.write_text(STUDY.format(cells=cells, steps=options.steps))
    began = time.perf_counter()
    study = prepare_study(file, options.out or folder / "study")
    print(f"{cells:,} cells planned in {time.perf_counter() - began:.1f} s", flush=True)
    driver, began, killed = Driver(file, study, options), time.perf_counter(), 0
    for number in range(options.kills):
        driver.wait(cells * (number + 1) // (options.kills + 1))
        if number % 2:
            driver.kill()
        else:
            killed += kill_worker(study)
        if number == options.kills // 2:
            status(study)
    driver.wait(cells)
    seconds = time.perf_counter() - began
    driver.end()
    outcomes = [study.outcome(cell) or {"state": "lost"} for cell in study.plan.cells]
    lost = [outcome for outcome in outcomes if outcome["state"] != FINISHED]
    interrupted = sum(outcome.get("tries", 1) > 1 for outcome in outcomes)
    print(f"{killed} workers and {options.kills // 2} drivers killed; {interrupted} cells were "
          f"interrupted and resumed; {len(lost)} lost or failed")  # fmt: skip
    each = sum(outcome.get("seconds", 0.0) for outcome in outcomes) / cells
    whole = options.jobs * seconds / cells
    print(f"{cells / seconds:.0f} cells per second; a cell takes {1000 * each:.0f} ms, and "
          f"{1000 * (whole - each):.0f} ms of its worker's time are overhead")  # fmt: skip
    print(f"memory of the driver: {driver.memory / 1e6:.0f} MB at most")
    status(study)
    different = check(file, folder / "again", study, options.checked)
    print(f"{options.checked} cells trained again: {len(different)} differ {different or ''}")
    if lost or different:
        raise SystemExit(1)


class Driver:
    """The process of a study, started again when it is killed.

    Attributes:
        memory: the most bytes that one of them used.
    """

    def __init__(self, file: Path, study: Study, options: argparse.Namespace) -> None:
        self._study, self.memory = study, 0
        self._command = [sys.executable, "-m", "statetrace", "study", str(file)]
        self._command += ["--out", str(study.path), "--jobs", str(options.jobs)]
        self._command += ["--engine", options.engine]
        self._command += ["--address", options.address] if options.address else []
        self._start()

    def _start(self) -> None:
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=nowhere, stderr=nowhere)

    def wait(self, ended: int) -> None:
        """Wait until that many cells have ended."""
        while ended_cells(self._study) < ended:
            if self._process.poll() not in (None, 0):
                raise SystemExit(f"the driver ended with status {self._process.returncode}")
            with contextlib.suppress(OSError):
                self.memory = max(self.memory, peak(self._process.pid))
            time.sleep(0.2)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._start()

    def end(self) -> None:
        if self._process.wait() != 0:
            raise SystemExit(f"the driver ended with status {self._process.returncode}")


def ended_cells(study: Study) -> int:
    """How many cells have ended. Half-written outcomes of killed workers do not count."""
    return sum(not name.startswith(".") for name in os.listdir(study.path / "outcomes"))


def peak(pid: int) -> int:
    """The most bytes of memory that a process has used."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


def kill_worker(study: Study) -> bool:
    """Kill the worker of this machine that took the latest lease, if it still holds it."""
    claims = study.path / "claims"
    for _ in range(1000):
        newest = max(os.scandir(claims), key=lambda entry: entry.stat().st_mtime).name
        lease = leases.latest(claims, newest.rpartition(".")[0])
        if lease and not lease.released and lease.owner.is_here() and lease.owner.lives():
            os.kill(lease.owner.pid, signal.SIGKILL)
            return True
    return False


def status(study: Study) -> None:
    began = time.perf_counter()
    command = [sys.executable, "-m", "statetrace", "study", "status", str(study.path), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    if code:
        raise SystemExit("`study status` failed")
    print(f"`study status` after {ended_cells(study):,} cells: "
          f"{time.perf_counter() - began:.1f} s, {usage.ru_maxrss / 1e3:.0f} MB")  # fmt: skip


def check(file: Path, folder: Path, study: Study, count: int) -> list[str]:
    """Names of cells that differ when trained without interruption. Interrupted cells are compared
    first."""
    torch.set_num_threads(1)
    cells = random.Random(0).sample(study.plan.cells, len(study.plan.cells))
    cells = sorted(cells, key=lambda cell: -len(study.failures(cell)))[:count]
    again = prepare_study(file, folder)
    work(again, only=[cell.name for cell in cells])
    return [cell.name for cell in cells if content(study, cell) != content(again, cell)]


def content(study: Study, cell: Cell) -> list[Any]:
    """The verdict of a cell, and digests of its log and weights."""
    home = study.run(cell).path
    files = [home / "metrics.jsonl", *sorted(home.glob("checkpoints/*/*.safetensors"))]
    digests = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return [(study.outcome(cell) or {}).get("final"), *digests]


if __name__ == "__main__":
    main()
