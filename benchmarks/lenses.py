"""Every lens of an older version against today's, with the default settings of `analyze` in each.

Both versions take turns on the same model, each time in a new process. CPU time is compared,
because other programs disturb it less than wall time; both are medians over the turns.

    git worktree add /tmp/0.1.0 fdd0ce5d^
    python benchmarks/lenses.py /tmp/0.1.0
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
LENSES = ("generalization", "depth", "probing", "patching", "attention", "geometry")

Times = dict[str, tuple[float, float]]
"""Lens -> seconds of CPU time and of wall time."""


def measure(name: str, threads: int, thorough: bool) -> Times:
    """In the version of statetrace that this process imports."""
    import torch

    import statetrace
    from statetrace.lenses.registry import LENSES as REGISTERED
    from statetrace.lenses.registry import make_spec

    loaded = statetrace.load(name).loaded
    settings = {}
    if not thorough and statetrace.__version__ != "0.1.0":  # its `analyze` has the paper's
        from statetrace.mechanisms.collect_evidence import lighter_settings

        settings = {lens: lighter_settings(lens, loaded.task.group) for lens in LENSES}
    torch.set_num_threads(threads)
    times = {}
    for lens in LENSES:
        spec = make_spec(lens, settings.get(lens, {}))
        cpu, wall = time.process_time(), time.perf_counter()
        REGISTERED[lens].look(loaded.model, loaded.task, spec, lambda share: None)
        times[lens] = time.process_time() - cpu, time.perf_counter() - wall
    return times


def in_new_process(tree: Path, arguments: argparse.Namespace) -> Times:
    command = [sys.executable, str(HERE), str(tree), "--measure", "--model", arguments.model]
    command += ["--threads", str(arguments.threads)] + ["--thorough"] * arguments.thorough
    environment = os.environ | {"PYTHONPATH": str(tree)}
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return {lens: (cpu, wall) for lens, (cpu, wall) in json.loads(output).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path, help="checkout of the older version")
    parser.add_argument("--model", default="zoo:s3-associative")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--thorough", action="store_true", help="the paper's settings in both")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.model, arguments.threads, arguments.thorough)))
        return
    turns = [
        (
            in_new_process(arguments.old.resolve(), arguments),
            in_new_process(HERE.parents[1], arguments),
        )
        for _ in range(arguments.turns)
    ]
    print(f"{arguments.model}, {arguments.threads} threads, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'lens':16}{'CPU: old':>10}{'new':>8}{'ratio':>8}{'wall: old':>12}{'new':>8}{'ratio':>8}"
    )
    sums = [
        {lens: [times[lens][kind] for times in turn] for lens in LENSES}
        for kind in (0, 1)
        for turn in zip(*turns, strict=True)
    ]
    medians = [{lens: statistics.median(each[lens]) for lens in LENSES} for each in sums]
    for row in (*LENSES, "all"):
        old, new, old_wall, new_wall = (
            sum(each.values()) if row == "all" else each[row] for each in medians
        )
        print(
            f"{row:16}{old:10.2f}{new:8.2f}{old / new:8.1f}"
            f"{old_wall:12.2f}{new_wall:8.2f}{old_wall / new_wall:8.1f}"
        )


if __name__ == "__main__":
    main()
