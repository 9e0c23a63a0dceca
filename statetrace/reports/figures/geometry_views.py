"""States of four and more objects, coloured by the position of one of them.

This is the paper's figure for S5 (appendix D): the states span more than three directions, but
those with object 1 in the same position cluster on either side of the parity plane. Other objects
can be chosen, because a model may cluster by another one.

Caveat: the axes are chosen independently of positions, as axes fitted to positions would show
clusters in noise. Clusters may therefore exist in other directions without being visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from statetrace.lenses.result import LensResult
from statetrace.reports.figures.chart import Cloud, Line, Panel, Path3, plain, share_panel
from statetrace.reports.run_results import RunResults

LEAST = 4
"""The fewest objects; with three, every state has its own colour already."""
FIRST = "position of object 1"
CLEAREST = "position of the clearest object"
COLOURS = ("state", "parity", "third", "fourth", "fifth", "sixth", "grey")
MARKS = ("circle", "square", "diamond", "triangle-up")


def objects(result: LensResult) -> list[str]:
    """The options "position of object 1" and so on; none if states are not permutations of enough
    objects, or if the result of an older version does not have them."""
    names = result.summary.get("arrangements") or []
    numbered = [name for name in names if name.startswith("object ")]
    if len(numbered) < LEAST or "arrangements" not in result.arrays:
        return []
    return [f"position of {name}" for name in numbered]


def clearest(result: LensResult) -> str:
    """The object whose position explains most of the variance between states at the last layer."""
    shares = result.summary["arrangement_share"]
    return max(objects(result), key=lambda name: shares[name.removeprefix("position of ")] or 0.0)


def clouds(
    results: RunResults,
    chosen: str,
    means: np.ndarray,
    points: np.ndarray,
    states: np.ndarray,
    odd: np.ndarray,
) -> list[Any]:
    """Means and points coloured by position, round if even and pointed if odd; the centres of the
    clusters with the position, joined across parity."""
    result = results.need("geometry")
    name = chosen.removeprefix("position of ")
    where = result.arrays["arrangements"][result.summary["arrangements"].index(name)]
    label, visited = results.group.labels, np.isfinite(means).all(1)
    parities = ("",) if results.group.parity is None else (", even", ", odd")
    marks: list[Any] = []
    centres, texts, across = [], [], []
    for position in range(int(where.max()) + 1):
        colour, ends = COLOURS[position % len(COLOURS)], []
        for is_odd, parity in enumerate(parities):
            members = np.flatnonzero((where == position) & (odd == bool(is_odd)) & visited)
            if not len(members):
                continue
            series, mark = f"{name} at {position + 1}", "diamond" if is_odd else "circle"
            labels = [f"mean of {label[int(i)]}{parity}" for i in members]
            marks.append(Cloud(series, rows(means[members]), labels, colour, mark, 5.0))
            single = np.flatnonzero(np.isin(states, members))
            labels = [f"{label[int(states[i])]}{parity}" for i in single]
            marks.append(Cloud(series, rows(points[single]), labels, colour, mark, 2.0))
            ends.append(rows(means[members].mean(0, keepdims=True))[0])
        centres += ends
        texts += [str(position + 1)] * len(ends)
        across += [(ends[0], ends[1])] if len(ends) == 2 else []
    if across:
        marks.append(Path3("same position", across, "grey"))
    marks.append(Cloud("centre of a position", centres, texts, "ink", "circle", 3.0, strong=True))
    return marks


def rows(points: np.ndarray) -> list[list[float]]:
    return [[plain(value) or 0.0 for value in point] for point in points]


def shares(chosen: list[str], series: Callable[..., Any]) -> Panel:
    """The share of the variance between states that the position of each object explains, by
    layer."""
    lines = []
    for number, option in enumerate(chosen):
        name = option.removeprefix("position of ")
        x, y = series("arrangement_share", name)
        mark = MARKS[number % len(MARKS)]
        lines.append(Line(name, x, y, COLOURS[number % len(COLOURS)], "dash", mark))
    x, y = series("arrangement_share", name, "null")
    lines.append(Line("no structure", x, y, "grey", "dot", mark=None))
    title = "by the position of one object"
    return share_panel("layer", "share of variance", lines, title, whole="x")
