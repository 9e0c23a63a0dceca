"""The overhead of a study: 10,000 cells that do nothing, on a local Ray cluster.

Target: all cells end, although the driver is killed halfway and started again; nothing is lost, and
no ended cell is repeated (a cell in progress at that moment has not ended, and is resumed). Prints
cells per second and the overhead per cell for the second driver, without the start of the cluster.

    python benchmarks/study_cells.py                      # about two minutes on two cores
    python benchmarks/study_cells.py --engine local --cells 1000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from statetrace.studies.folder import Study
from statetrace.studies.grid import read_study

SETTLING = 20.0
"""Seconds until the workers of a killed driver are gone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--engine", default="ray", choices=["local", "ray"])
    parser.add_argument("--jobs", type=int, default=2)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), wanted.cells, wanted.engine, wanted.jobs)


def run(folder: Path, cells: int, engine: str, jobs: int) -> None:
    file = folder / "nothing.toml"
    file.write_text(f'seeds = {cells}\nwork = "nothing"\n')
    began = time.perf_counter()
    study = Study.prepare(folder / "study", read_study(file))
    print(f"{cells:,} cells planned in {time.perf_counter() - began:.1f} s")
    command = [sys.executable, "-m", "statetrace", "study", str(file), "--out", str(study.path)]
    command += ["--engine", engine, "--jobs", str(jobs)]

    def begin() -> subprocess.Popen[bytes]:
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(command, stdout=nowhere, stderr=nowhere)

    driver = begin()
    wait(study, cells // 3, driver)
    driver.kill()
    driver.wait()
    before = settled(study)
    print(f"driver killed after {before:,} cells had ended")
    driver = begin()
    first = wait(study, before + 1, driver)
    from_ = time.perf_counter()
    wait(study, cells, driver)
    seconds = time.perf_counter() - from_
    if driver.wait() != 0:
        raise SystemExit("the second driver failed")
    check(study, cells, jobs)
    rate = (cells - first) / seconds
    print(f"{rate:,.0f} cells per second with {jobs} workers on {engine}")
    print(f"overhead per cell: {1000 * jobs / rate:.2f} ms of a worker's time")


def wait(study: Study, ended: int, driver: subprocess.Popen[bytes]) -> int:
    """Until that many cells have ended; how many have."""
    while (there := len(study.ended())) < ended:
        if driver.poll() not in (None, 0):
            raise SystemExit(f"the driver ended with status {driver.returncode}")
        time.sleep(0.05)
    return there


def settled(study: Study) -> int:
    """How many cells have ended when nothing moves any more."""
    end = time.monotonic() + SETTLING
    there = -1
    while time.monotonic() < end and there != (there := len(study.ended())):
        time.sleep(1.0)
    return there


def check(study: Study, cells: int, jobs: int) -> None:
    """Nothing is lost or repeated; cells in progress in killed workers are resumed."""
    states = Counter(
        (study.outcome(cell) or {"state": "lost"})["state"] for cell in study.plan.cells
    )
    done = [
        (study.path / "cells" / f"{cell.name}.done").read_text().splitlines()
        for cell in study.plan.cells
    ]
    repeated = sum(line.endswith("repeated") for lines in done for line in lines)
    again = sum(len(lines) > 1 for lines in done)
    print(f"states: {dict(states)}; done again after they had ended: {repeated}")
    print(f"in progress when the driver was killed, and resumed: {again}")
    if states != {"finished": cells} or repeated or again > jobs:
        raise SystemExit(f"{cells - states['finished']} cells lost, {repeated} repeated")


if __name__ == "__main__":
    main()
