"""Layers needed for the answer, by length and split of the pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from statetrace.reports.figures.chart import TURNS, Chart, Heat, Line, Panel, grid, numbers
from statetrace.reports.run_results import RunResults

STYLES = {
    "all": ("all pairs", "grey", "dash", "diamond"),
    "same parity": ("same parity", "state", "solid", "circle"),
    "opposite parity": ("opposite parity", "parity", "solid", "square"),
}


def choices(results: RunResults) -> dict[str, list[str]]:
    return {"pairs": list(results.need("depth").summary["layers_needed"])}


def by_split(lengths: Sequence[int], needed: Mapping[str, Sequence[float | None]]) -> Panel:
    """Layers needed against length, one line per split of the pairs."""
    lines = []
    turns = cycle(TURNS)
    for split, values in needed.items():
        style = STYLES.get(split) or (split, next(turns), "solid", "triangle-up")
        label, colour, dash, mark = style
        lines.append(Line(label, list(lengths), numbers(values), colour, dash, mark=mark))
    top = max((v for values in needed.values() for v in values if v is not None), default=1.0)
    return length_panel(lengths, lines, top)


def length_panel(lengths: Sequence[int], lines: Iterable[Line], top: float) -> Panel:
    """Curves of layers needed, up to `top`, against length."""
    ticks = tuple((float(n), str(n)) for n in lengths if _has_tick(n, lengths[-1]))
    settings: dict[str, Any] = {"log_x": True, "whole": "x", "ticks": ticks}
    limits = (0, max(2.0, 1.1 * top))
    return Panel("length", "layers needed", tuple(lines), y_range=limits, **settings)


def _has_tick(n: int, longest: int) -> bool:
    """Powers of two and the longest length: these fit on a phone."""
    return n == longest or (n & (n - 1) == 0 and n * 1.6 < longest)


def depth(results: RunResults, pairs: str = "all") -> Chart:
    """Layers needed for all splits, and the vote for the clean run by layer for one."""
    result = results.need("depth")
    lengths = [int(n) for n in result.summary["lengths"]]
    rows = result.rows(split=pairs)
    layers = 1 + max((row["layer"] for row in rows), default=0)
    values = np.full((3, layers, len(lengths)), np.nan)
    for row in rows:
        cell = row["mean"], row["std"], row["n"]
        values[:, row["layer"], lengths.index(row["length"])] = np.array(cell, dtype=float)
    mean, std, n = map(grid, values)
    x, y, more = list(range(len(lengths))), list(range(layers)), (("deviation", std), ("pairs", n))
    heat = Heat(x, y, mean, "vote for the clean run", more=more)
    ticks = tuple((float(i), str(n)) for i, n in enumerate(lengths))
    restored = Panel("length", "layer", (heat,), down=True, whole="y", ticks=ticks)
    lines = by_split(lengths, result.summary["layers_needed"])
    return Chart("depth", f"Layers needed by length ({pairs})", (lines, restored))
