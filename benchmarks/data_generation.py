"""One million unique length-100 sequences of S5 with their states: time, memory, disk.

Targets: at most 3 s and 250 MB of memory on two cores, at most 210 MB on disk. A plain Python loop
(a dictionary look-up per step, as generators are usually written) runs beside it on a small share
of the work, so that the ratio does not depend on the machine.

    python benchmarks/data_generation.py
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from statetrace.groups import group
from statetrace.tasks.sequences import unique_sequences

SEQUENCES, LENGTH, SHARE = 1_000_000, 100, 200


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    s5 = group("S5")
    before = peak_mb()
    began = time.perf_counter()
    made = unique_sequences(s5, SEQUENCES, LENGTH, seed=0)
    seconds = time.perf_counter() - began
    peak = peak_mb()
    if "torch" in sys.modules:
        raise SystemExit("torch was imported: the memory measured would be torch's")

    table = {a: dict(enumerate(row)) for a, row in enumerate(s5.table.tolist())}
    rows = made.actions[: SEQUENCES // SHARE].tolist()
    began = time.perf_counter()
    for row, expected in zip(rows, made.states[: len(rows)].tolist(), strict=True):
        state, states = s5.identity, []
        for action in row:
            state = table[state][action]
            states.append(state)
        assert states == expected
    loop = (time.perf_counter() - began) * SHARE

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        made.save(Path(folder), s5)
        writing = time.perf_counter() - began
        disk = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6

    print(f"{SEQUENCES:,} unique sequences of {LENGTH} actions of S5, with states")
    print(f"  time            {seconds:6.2f} s   (target 3)")
    print(f"  peak memory     {peak:6.0f} MB  (target 250; {before:.0f} before)")
    print(f"  on disk         {disk:6.0f} MB  (target 210; written in {writing:.2f} s)")
    print(f"  a Python loop for the states alone: {loop:.1f} s, {loop / seconds:.0f} times as long")


if __name__ == "__main__":
    main()
