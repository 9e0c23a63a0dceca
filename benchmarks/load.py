"""Analysis on a busy machine: threads as statetrace chooses them against one, at load 8.

Four compiled models are compiled, analyzed and judged, with threads as statetrace chooses them and
with one thread (OMP_NUM_THREADS=1), both at the same time, so that they meet the same load. Busy
processes raise the load to --load, and everything runs on two cores. Target: at most 1.5 times the
time of one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

ALGORITHMS = ("sequential", "parallel", "associative", "parity-associative")

WORK = """
import statetrace as st
for algorithm in {algorithms}:
    model = st.compile(algorithm, "S3", {length})
    model.analyze()
    print(algorithm, model.verdict().mechanism, model.speed.threads, flush=True)
"""


def run(options: argparse.Namespace, threads: int | None) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    work = WORK.format(algorithms=ALGORITHMS[: options.models], length=options.length)
    return subprocess.Popen(
        [sys.executable, "-c", work], env=environment, stdout=subprocess.PIPE, text=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=int, default=8, help="busy processes, those of others too")
    parser.add_argument("--length", type=int, default=8, help="actions per sequence")
    parser.add_argument("--models", type=int, default=4, help="compiled models, at most 4")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    others = round(os.getloadavg()[0])
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(max(0, options.load - others))
    ]
    try:
        time.sleep(1)
        start = time.perf_counter()
        runs = {"chosen": run(options, None), "one thread": run(options, 1)}
        seconds: dict[str, float] = {}
        while len(seconds) < len(runs):
            for name, process in runs.items():
                if name not in seconds and process.poll() is not None:
                    seconds[name] = time.perf_counter() - start
            time.sleep(0.05)
    finally:
        for process in busy:
            process.kill()
    for name, process in runs.items():
        printed, _ = process.communicate()
        lines = [line.split() for line in printed.splitlines()]
        assert process.returncode == 0, printed
        assert all(algorithm == mechanism for algorithm, mechanism, _ in lines), printed
        print(f"{name}: {seconds[name]:.0f} s, threads {' '.join(line[2] for line in lines)}")
    print(f"load {os.getloadavg()[0]:.0f}: {seconds['chosen'] / seconds['one thread']:.2f} times")


if __name__ == "__main__":
    main()
