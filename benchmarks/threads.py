"""How far results differ between numbers of CPU threads, which change the order of sums.

The same recipe is trained with each number, and one of the models is analyzed with each. With the
same number everything is equal bit for bit, which is checked too.

    python benchmarks/threads.py          # about three minutes on two cores
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import statetrace as st
from statetrace.lenses.result import LensResult
from statetrace.models.threads import using_threads
from statetrace.runs import Run

LENSES = ("generalization", "depth", "patching", "probing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 1, 2, 4])
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # else lenses measure which number is fastest
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for number, threads in enumerate(options.threads):
            out = Path(folder) / str(number)
            st.train(out=out, group="S3", length=12, steps=options.steps, threads=threads,
                     stop_learned=None, seed=0)  # fmt: skip
            runs.append(out)
        print("| threads | largest difference of a loss | of a weight | of an accuracy |")
        print("|---|---|---|---|")
        for run, threads in zip(runs, options.threads, strict=True):
            print(
                f"| {threads} | {' | '.join(f'{value:.1e}' for value in training(run, runs[0]))} |"
            )
        reference = analyze(runs[0], options.threads[0])
        print("\n| threads | " + " | ".join(LENSES) + " | verdict |")
        print("|---" * (len(LENSES) + 2) + "|")
        for threads in options.threads:
            results, verdict = analyze(runs[0], threads)
            cells = [f"{difference(results[k], reference[0][k]):.1e}" for k in LENSES]
            print(f"| {threads} | {' | '.join(cells)} | {verdict - reference[1]:+.1e} |")


def training(run: Path, other: Path) -> tuple[float, float, float]:
    """Largest differences between two runs: loss at any logged step, final weight, accuracy."""
    mine, theirs = Run(run), Run(other)
    losses = [[r["loss"] for r in each.metrics("training")] for each in (mine, theirs)]
    accuracies = [each.evaluations()[-1]["accuracy_by_length"]["state"] for each in (mine, theirs)]
    a, b = (load_file(each.checkpoints()[-1][1] / "model.safetensors") for each in (mine, theirs))
    weights = max(float(np.abs(a[name] - b[name]).max()) for name in a)
    return _largest(*losses), weights, _largest(*accuracies)


def analyze(run: Path, threads: int) -> tuple[dict[str, LensResult], float]:
    """Lens results and the probability of the verdict, computed with this number of threads."""
    with using_threads(threads):
        loaded = st.load(run).loaded
        model = st.load(loaded.model, group=loaded.task.group.name, length=loaded.task.length)
        results = {name: model.analyze([name])[name] for name in LENSES}
        return results, model.verdict().confidence


def difference(result: LensResult, other: LensResult) -> float:
    """The largest difference of any number in the tables of two results."""
    numbers = [
        [row for name, row in each.columns.items() if all(isinstance(v, float | None) for v in row)]
        for each in (result, other)
    ]
    return max((_largest(a, b) for a, b in zip(*numbers, strict=True)), default=0.0)


def _largest(values: list[float], others: list[float]) -> float:
    a, b = (np.array(each, dtype=float) for each in (values, others))
    return float(np.nanmax(np.abs(a - b), initial=0.0))


if __name__ == "__main__":
    main()
