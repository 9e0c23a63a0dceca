"""The figure and the table of a registered lens: its own figure, or lines of its main numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.lenses.registry import registered_lens
from statetrace.lenses.result import LensResult
from statetrace.reports.figures.chart import TURNS, Chart, Line, Panel
from statetrace.reports.run_results import RunResults

ALONG = ("length", "layer", "position", "step")
VALUES = ("mean", "value", "accuracy", "share")
SPREAD = ("std", "low", "high", "n")
MOST_LINES, MOST_ROWS = 12, 200


def draw(results: RunResults, name: str) -> Chart:
    """The lens's own figure where it has one and is installed, else a line chart of its table."""
    result = results.need(name)
    lens = registered_lens(name)
    if lens is not None and lens.figure is not None:
        chart = lens.figure(result)
        if not isinstance(chart, Chart):
            raise StatetraceError(f"the figure of the lens '{name}' is {chart!r:.60}, not a Chart")
        return chart
    return line_chart(result)


def line_chart(result: LensResult) -> Chart:
    """One line per combination of the text columns, over length, layer, position or step if there
    is such a column, else over the first column of numbers."""
    numeric = [name for name, values in result.columns.items() if _are_numbers(values)]
    plain = [name for name in numeric if name not in SPREAD]
    y = next((name for name in VALUES if name in plain), plain[-1] if plain else None)
    x = next((name for name in (*ALONG, *plain) if name in plain and name != y), None)
    if x is None or y is None:
        raise StatetraceError(
            f"the table of the lens '{result.lens}' has no two columns of numbers to draw"
        )
    keys = [name for name in result.columns if name not in (x, y, *SPREAD)]
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in result.rows():
        label = ", ".join(f"{row[key]}" for key in keys) or y
        lines.setdefault(label, []).append(row)
    banded = {"low", "high"} <= set(numeric)
    colours = ("state", "parity", *TURNS)
    marks = []
    for (label, rows), colour in zip(
        list(lines.items())[:MOST_LINES], cycle(colours), strict=False
    ):
        along, values = ([row[name] for row in rows] for name in (x, y))
        edges = ("low", "high") if banded else ()
        band: dict[str, Any] = {edge: [row[edge] for row in rows] for edge in edges}
        marks.append(Line(label, along, values, colour, **band))
    return Chart(result.lens, result.lens, (Panel(x, y, tuple(marks)),))


def table(results: RunResults, name: str) -> tuple[list[str], list[list[Any]]]:
    """The first rows of the result."""
    columns = results.need(name).columns
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return list(columns), rows[:MOST_ROWS]


def _are_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )
