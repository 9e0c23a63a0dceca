"""Do longer sequences need more layers? docs/findings/depth.md.

    python -m reproduction.depth --measure runs/depth
    python -m reproduction.depth

The first writes the tables of a trained study to results/depth, the second computes the tests and
draws the figure from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from statistics import mean
from typing import TypeAlias

import numpy as np

from reproduction.findings import holm
from reproduction.judged import Judged, run
from reproduction.lens_model import NAMES
from statetrace.mechanisms.links import Link
from statetrace.reports.figures.chart import Chart, Heat, Line, Panel

RESULTS, FIGURE = "results/depth", "docs/findings/depth.png"
FAMILIES = ("gpt2", "pythia")
TOPICS = "S3-after-topics"
TASKS = {"Z6": "Z6", "S3": "S3", TOPICS: "S3 after a topic model"}
"""In words."""
COMPOSED = {"S3": ("state", "circle"), TOPICS: ("third", "square")}
"""Color and mark."""
THEORY = "composing pairs, in theory"
LENGTHS, DEPTHS = (6, 8, 16, 32), (1, 2, 3, 4, 6, 8)
ENOUGH = 4
"""Layers in which mechanisms differ clearly."""
DEEPER = 9
"""Counts as the shortest depth where none of these learned."""
TESTS = {("S3", "Z6"): "greater", (TOPICS, "S3"): "two-sided"}
Array: TypeAlias = np.ndarray
LAWS: dict[str, Callable[[Array], Array]] = {
    "constant": lambda n: 0 * n,
    "logarithmic": np.log2,
    "linear": lambda n: n,
}

Shortest: TypeAlias = dict[int, dict[int, int]]
"""Seed -> length -> the smallest depth that learned it."""


def of_task(models: Sequence[Judged], family: str, task: str, length: int = 0) -> list[Judged]:
    """At all lengths, or at one."""
    return [
        m
        for m in models
        if (m["model"], m["task"]) == (family, task) and length in (0, m["length"])
    ]


def shortest(models: Sequence[Judged], family: str, task: str) -> Shortest:
    """Of the seeds with a model in every cell."""
    mine = of_task(models, family, task)
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
    return {name: round(float(np.sqrt(np.mean(rest**2))), 2) for name, rest in squares.items()}


def ideal() -> Shortest:
    """Of models that compose pairs: the smallest of the trained depths that theory allows."""
    return {0: {n: min(d for d in DEPTHS if 2**d >= n) for n in LENGTHS}}


def with_depths(depths: Shortest, other: dict[int, int]) -> Shortest:
    """As if some shortest depths were others."""
    return {
        seed: {n: other.get(depth, depth) for n, depth in by_length.items()}
        for seed, by_length in depths.items()
    }


def linear_from(depths: Shortest) -> int | None:
    """The smallest depth that lengths learned at none would have to need for the linear law to fit
    better than the logarithmic one."""
    for deeper in range(DEEPER, max(LENGTHS)):
        laws = misfits(with_depths(depths, {DEEPER: deeper}))
        if laws["linear"] < laws["logarithmic"]:
            return deeper
    return None


def deeper_failures(models: Sequence[Judged], family: str, task: str, n: int) -> tuple[int, int]:
    """Of the models deeper than the shortest depth of their seed: those that failed, and all."""
    depths = shortest(models, family, task)
    mine = [m for m in of_task(models, family, task, n) if m["seed"] in depths]
    deeper = [m for m in mine if m["layers"] > depths[m["seed"]][n]]
    return sum(m["solved"] < n for m in deeper), len(deeper)


def solved(
    models: Sequence[Judged], family: str, task: str, length: int = max(LENGTHS)
) -> dict[int, list[int]]:
    """Depth -> actions that the models solve that were trained at this length."""
    mine = of_task(models, family, task, length)
    depths = sorted({m["layers"] for m in mine})
    return {depth: [m["solved"] for m in mine if m["layers"] == depth] for depth in depths}


def state_links(models: Sequence[Judged], family: str) -> list[Link]:
    """Of the deepest models after topics at the longest length: how the state is computed."""
    mine = of_task(models, family, TOPICS, max(LENGTHS))
    return [m.links[-1] for m in mine if m["layers"] == max(DEPTHS) and m.links]


def needed_inside(models: Sequence[Judged], family: str) -> dict[int, list[float]]:
    """Length -> layers after which these hold the state, for the lengths measured in all."""
    curves = [
        dict(zip(map(int, link.lengths), map(float, link.needed), strict=True))
        for link in state_links(models, family)
    ]
    common = set.intersection(*map(set, curves)) if curves else set()
    return {n: [curve[n] for curve in curves] for n in sorted(common)}


def learned_panel(models: Sequence[Judged], family: str, task: str) -> Panel:
    """How many models of each depth and length learned it."""
    able = Counter((m["layers"], m["length"]) for m in of_task(models, family, task)
                   if m["solved"] == m["length"])  # fmt: skip
    seeds = len({m["seed"] for m in of_task(models, family, task)})
    x, y = ([float(i) for i in range(len(levels))] for levels in (LENGTHS, DEPTHS))
    counts = [[float(able[depth, n]) for n in LENGTHS] for depth in DEPTHS]
    heat = Heat(x, y, counts, f"seeds that learned, of {seeds}", high=float(seeds))
    marks: list[Heat | Line] = [heat]
    if task in COMPOSED:
        needed = np.interp(np.ceil(np.log2(LENGTHS)), DEPTHS, y).tolist()
        marks.append(Line(THEORY, x, needed, "parity", "dash", mark="diamond"))
    ticks, y_ticks = (
        tuple((float(i), str(level)) for i, level in enumerate(levels))
        for levels in (LENGTHS, DEPTHS)
    )
    about = f"{NAMES[family]}: {TASKS[task]}"
    return Panel("length", "layers", tuple(marks), about, ticks=ticks, y_ticks=y_ticks, bare=True)


def solved_panel(models: Sequence[Judged], family: str) -> Panel:
    powers = [d for d in range(1, max(DEPTHS)) if 2**d <= max(LENGTHS)]
    lines = [Line(THEORY, powers, [2.0**d for d in powers], "parity", "dash", mark="diamond")]
    for task, (colour, mark) in COMPOSED.items():
        reached = solved(models, family, task)
        y, low, high = _mean_and_range(reached)
        lines.append(Line(TASKS[task], [*reached], y, colour, mark=mark, low=low, high=high))
    about = f"{NAMES[family]} at length {max(LENGTHS)}"
    return Panel("layers", "actions solved", tuple(lines), about, y_range=(0, 34), whole="xy")


def inside_panel(models: Sequence[Judged]) -> Panel:
    lines = []
    for family, colour, mark in (("gpt2", "fourth", "triangle-up"), ("pythia", "ink", "circle")):
        if needed := needed_inside(models, family):
            y, low, high = _mean_and_range(needed)
            name = f"{NAMES[family]}, inside"
            lines.append(Line(name, [*needed], y, colour, mark=mark, low=low, high=high))
    n = [2.0**i for i in range(1, 5)]
    lines.append(Line(THEORY, n, [*np.log2(n)], "parity", "dash", mark="diamond"))
    ticks = tuple((length, f"{length:.0f}") for length in n)
    about = f"Inside {max(DEPTHS)} layers, after a topic model"
    return Panel("actions", "layers needed", tuple(lines), about, y_range=(0, max(DEPTHS) + 0.5),
                 log_x=True, whole="xy", ticks=ticks)  # fmt: skip


def _mean_and_range(values: dict[int, list[int]] | dict[int, list[float]]) -> Iterator[list[float]]:
    for of in (mean, min, max):
        yield [float(of(some)) for some in values.values()]


def _means(values: dict[int, list[int]] | dict[int, list[float]]) -> dict[int, float]:
    return {key: round(float(mean(some)), 1) for key, some in values.items()}


def figure(models: Sequence[Judged]) -> Chart:
    """Which depths learn which lengths; the actions solved by depth; the layers needed inside."""
    families = [family for family in FAMILIES if any(m["model"] == family for m in models)]
    panels = [learned_panel(models, family, task) for family in families for task in TASKS]
    panels += [solved_panel(models, family) for family in families]
    title = "Which depth learns which length?"
    return Chart("depth", title, (*panels, inside_panel(models)), columns=3)


def report(models: Sequence[Judged]) -> None:
    print(
        f"{THEORY}: {ideal()[0]}, {slope(ideal()[0]):.2f} layers per doubling, {misfits(ideal())}"
    )
    for family in FAMILIES:
        for task in TASKS:
            if depths := shortest(models, family, task):
                report_depths(models, family, task, depths)
        for link in state_links(models, family):
            laws = {name: round(misfit, 2) for name, misfit in link.misfits.items()}
            print(f"{family}, inside: {link.growth[0]:.2f} layers per doubling, misfits {laws}")
        if needed := needed_inside(models, family):
            print(f"  layers needed by length {_means(needed)}")
    for task in TASKS:
        for m in of_task(models, "mamba", task):
            size = f"length {m['length']}, {m['layers']} layers, seed {m['seed']}"
            print(f"mamba, {task}, {size}: {m['solved']}, {m.mechanism}, decided: {m.decided}")
    for test, (p, corrected) in planned_tests(models).items():
        print(f"{', '.join(test)}: p {p:.3g}, corrected {corrected:.3g}")


def report_depths(models: Sequence[Judged], family: str, task: str, depths: Shortest) -> None:
    print(f"{family}, {task}: {mean(map(slope, depths.values())):.2f} layers per doubling")
    by_length = {n: [of[n] for of in depths.values()] for n in LENGTHS}
    print(f"  shortest depth {_means(by_length)}, by seed {by_length}")
    before = {depth: last + 1 for last, depth in pairwise(DEPTHS)}
    finer = with_depths(depths, before)
    per_doubling = mean(map(slope, finer.values()))
    print(f"  misfits {misfits(depths)}, linear if failures need {linear_from(depths)} layers")
    print(f"  at the depths between: {per_doubling:.2f} layers per doubling, {misfits(finer)}")
    for n in LENGTHS:
        mine = of_task(models, family, task, n)
        able = [m for m in mine if m["solved"] == n]
        names = dict(Counter(m.mechanism for m in able))
        decided = sum(m.decided for m in able)
        deep: dict[str, list[int]] = {}
        for m in mine:
            if m["layers"] >= ENOUGH:
                deep.setdefault(m.mechanism, []).append(m["solved"])
        failed, deeper = deeper_failures(models, family, task, n)
        reached = solved(models, family, task, n)
        print(f"  length {n}: learned {len(able)} of {len(mine)}, decided {decided} {names}")
        print(f"    failed although deeper than the shortest: {failed} of {deeper}")
        print(f"    solved by depth {_means(reached)}, {reached}")
        print(f"    solved with {ENOUGH} layers or more, by mechanism {deep}")


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure)
