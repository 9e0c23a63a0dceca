"""States of four and more objects, coloured by the position of one of them.

The paper's figure for S5: states do not fit into three directions, but those in which object 1 has
the same position lie together, on either side of the parity plane (appendix D). Other objects can
be chosen, as a model may have taken another one.

Caveat: the axes are chosen without regard to positions, as axes fitted to them would show clusters
in noise. So clusters that are not seen may still be there, in other directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from statetrace.lenses.result import LensResult
from statetrace.report.figures.chart import Cloud, Line, Panel, Path3, plain
from statetrace.report.run_results import RunResults

LEAST = 4
"""Objects; with three every state has its own colour already, and the prism says more."""
FIRST = "position of object 1"
CLEAREST = "position of the clearest object"
COLOURS = ("state", "parity", "third", "fourth", "fifth", "sixth", "grey")
MARKS = ("circle", "square", "diamond", "triangle-up")


def objects(result: LensResult) -> list[str]:
    """What can be chosen: "position of object 1" and so on; nothing where states are no
    permutations of that many objects, or where the result is from before that was saved."""
    names = result.summary.get("arrangements") or []
    found = [name for name in names if name.startswith("object ")]
    if len(found) < LEAST or "arrangements" not in result.arrays:
        return []
    return [f"position of {name}" for name in found]


def clearest(result: LensResult) -> str:
    """The one whose position explains most of the variance between states at the last layer."""
    shares = result.summary["arrangement_share"]
    return max(objects(result), key=lambda said: shares[said.removeprefix("position of ")] or 0.0)


def clouds(
    look: RunResults,
    chosen: str,
    means: np.ndarray,
    points: np.ndarray,
    states: np.ndarray,
    odd: np.ndarray,
) -> list[Any]:
    """Means and points in the colours of the position, round if even and pointed if odd; the
    clusters' middles with the position, joined across parity."""
    result = look.need("geometry")
    thing = chosen.removeprefix("position of ")
    where = result.arrays["arrangements"][result.summary["arrangements"].index(thing)]
    label, there = look.group.labels, np.isfinite(means).all(1)
    words = ("",) if look.group.parity is None else (", even", ", odd")
    marks: list[Any] = []
    middles, texts, across = [], [], []
    for position in range(int(where.max()) + 1):
        colour, ends = COLOURS[position % len(COLOURS)], []
        for is_odd, word in enumerate(words):
            here = np.flatnonzero((where == position) & (odd == bool(is_odd)) & there)
            if not len(here):
                continue
            name = f"{thing} at {position + 1}"
            mark = "diamond" if is_odd else "circle"
            said = [f"mean of {label[int(i)]}{word}" for i in here]
            marks.append(Cloud(name, rows(means[here]), said, colour, mark, 5.0))
            single = np.flatnonzero(np.isin(states, here))
            said = [f"{label[int(states[i])]}{word}" for i in single]
            marks.append(Cloud(name, rows(points[single]), said, colour, mark, 2.0))
            ends.append(rows(means[here].mean(0, keepdims=True))[0])
        middles += ends
        texts += [str(position + 1)] * len(ends)
        across += [(ends[0], ends[1])] if len(ends) == 2 else []
    if across:
        marks.append(Path3("the same position", across, "grey"))
    marks.append(Cloud("middle of a position", middles, texts, "ink", "circle", 3.0, strong=True))
    return marks


def rows(points: np.ndarray) -> list[list[float]]:
    return [[plain(value) or 0.0 for value in point] for point in points]


def shares(chosen: list[str], series: Callable[..., Any]) -> Panel:
    """How much of the variance between states the position of each object explains, by layer."""
    lines = []
    for number, said in enumerate(chosen):
        name = said.removeprefix("position of ")
        x, y = series("arrangement_share", name)
        mark = MARKS[number % len(MARKS)]
        lines.append(Line(name, x, y, COLOURS[number % len(COLOURS)], "dash", mark))
    x, y = series("arrangement_share", name, "null")
    lines.append(Line("no structure", x, y, "grey", "dot", mark=None))
    title = "by the position of one object"
    return Panel("layer", "share of variance", tuple(lines), title, y_range=(0, 1.04), whole="x")
