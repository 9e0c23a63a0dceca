"""Depth is the price of length: docs/findings/depth.md.

    python -m reproduction.depth --measure runs/depth
    python -m reproduction.depth

The first writes the tables of a trained study to results/depth, the second computes the tests and
draws the figure from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import mean, median
from typing import Any

import numpy as np

from reproduction.findings import holm
from reproduction.judged import Judged, run
from reproduction.lens_model import NAMES
from statetrace.reports.figures.chart import Chart, Line, Panel, ReferenceLine

RESULTS, FIGURE = "results/depth", "docs/findings/depth.png"
FAMILIES = ("gpt2", "pythia")
TASKS = {
    "Z6": ("Z6", "third", "triangle-up"),
    "S3": ("S3", "state", "circle"),
    "S3-after-topics": ("S3 after a topic model", "parity", "square"),
}
"""Name in words, and style."""
LENGTHS, DEPTHS = (6, 8, 16, 32), (1, 2, 3, 4, 6, 8)
DEEPER = 9
"""Counts as the shortest depth where none of these learned."""
TESTS = {("S3", "Z6"): "greater", ("S3-after-topics", "S3"): "two-sided"}
LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": lambda n: 0 * n,
    "logarithmic": np.log2,
    "linear": lambda n: n,
}

Shortest = dict[int, dict[int, int]]
"""Seed -> length -> the smallest depth that learned it."""


def shortest(models: Sequence[Judged], family: str, task: str) -> Shortest:
    """Of the seeds with a model in every cell."""
    mine = [m for m in models if (m["model"], m["task"]) == (family, task)]
    depths: Shortest = {}
    for seed in sorted({m["seed"] for m in mine}):
        cells = {(m["length"], m["layers"]): m for m in mine if m["seed"] == seed}
        if len(cells) < len(LENGTHS) * len(DEPTHS):
            continue
        depths[seed] = {
            n: min((d for d in DEPTHS if cells[n, d]["solved"] == n), default=DEEPER)
            for n in LENGTHS
        }
    return depths


def slope(by_length: dict[int, int]) -> float:
    """Layers per doubling of the length."""
    x, y = np.log2([*by_length]), np.array([*by_length.values()])
    return float(np.polyfit(x, y, 1)[0])


def exact_permutation(first: Sequence[float], second: Sequence[float], sides: str) -> float:
    """p of the difference of means over all ways to split the values."""
    values = np.array([*first, *second])
    splits = [list(split) for split in combinations(range(len(values)), len(first))]
    means = np.array([values[split].mean() for split in splits])
    excess, observed = means - values.mean(), float(np.mean(first)) - values.mean()
    if sides == "two-sided":
        excess, observed = abs(excess), abs(observed)
    return float((excess >= observed - 1e-12).mean())


def planned_tests(models: Sequence[Judged]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Of each family that was trained: p, and p after Holm's correction."""
    raw = {}
    for family in FAMILIES:
        slopes = {t: [slope(s) for s in shortest(models, family, t).values()] for t in TASKS}
        for (first, second), sides in TESTS.items():
            if slopes[first] and slopes[second]:
                p = exact_permutation(slopes[first], slopes[second], sides)
                raw[family, first, second] = p
    return {test: (raw[test], p) for test, p in holm(raw).items()}


def misfits(depths: Shortest) -> dict[str, float]:
    """Root mean square distance, in layers, of the mean shortest depth from each law."""
    n = np.array(LENGTHS, float)
    y = np.mean([[by_length[int(length)] for length in n] for by_length in depths.values()], axis=0)
    squares = {}
    for name, law in LAWS.items():
        x = np.stack([np.ones_like(n), law(n)], axis=1)
        squares[name] = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return {name: float(np.sqrt(np.mean(rest**2))) for name, rest in squares.items()}


def solved(models: Sequence[Judged], family: str, task: str) -> dict[int, list[int]]:
    """Depth -> actions that the models solve that were trained at the longest length."""
    wanted = (family, task, max(LENGTHS))
    mine = [m for m in models if (m["model"], m["task"], m["length"]) == wanted]
    depths = sorted({m["layers"] for m in mine})
    return {depth: [m["solved"] for m in mine if m["layers"] == depth] for depth in depths}


def figure(models: Sequence[Judged]) -> Chart:
    """The mean shortest depth by length, and the solved length by depth."""
    panels = []
    for family in FAMILIES:
        if not any(model["model"] == family for model in models):
            continue
        depth = [
            Line(law, LENGTHS, y, "faint", dash, mark=None)
            for law, y, dash in (
                ("log2 of the length", [float(np.log2(n)) for n in LENGTHS], "dash"),
                ("the length", [float(n) for n in LENGTHS], "dot"),
            )
        ]
        length = []
        for task, (name, colour, mark) in TASKS.items():
            if depths := [*shortest(models, family, task).values()]:
                by_length = [[each[n] for each in depths] for n in LENGTHS]
                y, low, high = (
                    [float(of(values)) for values in by_length] for of in (mean, min, max)
                )
                depth.append(Line(name, LENGTHS, y, colour, mark=mark, low=low, high=high))
            if reached := solved(models, family, task):
                y = [median(values) for values in reached.values()]
                length.append(Line(name, [*reached], y, colour, mark=mark))
        about: dict[str, Any] = {"y_range": (0, DEEPER + 0.6), "log_x": True, "whole": "xy"}
        ticks = tuple((float(n), str(n)) for n in LENGTHS)
        most = ReferenceLine("y", max(DEPTHS), "deepest", "faint", "dot")
        panels += [
            Panel("length", "shortest depth", (*depth, most),
                  f"{NAMES[family]}: mean, range of seeds", ticks=ticks, **about),
            Panel("layers", "actions solved", tuple(length),
                  f"{NAMES[family]} at length {max(LENGTHS)}: median", y_range=(0, 34), whole="xy"),
        ]  # fmt: skip
    title = "The depth that a length requires"
    return Chart("depth", title, tuple(panels), columns=2)


def report(models: Sequence[Judged]) -> None:
    for family in FAMILIES:
        for task in TASKS:
            depths = shortest(models, family, task)
            if not depths:
                continue
            slopes = {seed: round(slope(by_length), 2) for seed, by_length in depths.items()}
            print(f"{family}, {task}: shortest depth {depths}, layers per doubling {slopes}")
            print(f"  misfits {misfits(depths)}")
            print(f"  solved at length {max(LENGTHS)} by depth: {solved(models, family, task)}")
            mine = [m for m in models if (m["model"], m["task"]) == (family, task)]
            for n in LENGTHS:
                able = [m for m in mine if m["length"] == n == m["solved"]]
                print(f"  length {n}: {dict(Counter(model.mechanism for model in able))}")
    for test, (p, corrected) in planned_tests(models).items():
        print(f"{', '.join(test)}: p {p:.3g}, corrected {corrected:.3g}")


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure)
