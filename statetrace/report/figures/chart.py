"""A figure as plain numbers: panels of lines, heat maps and points, in no plotting library's terms.

Every figure of the report is a function that returns a `Chart`. Two small renderers draw it:
screen.py for the page and for notebooks (plotly), paper.py for vector files (matplotlib). One
description and two renderers, rather than two functions per figure, so that the page and the paper
cannot come to show different numbers; and rather than printing plotly's own pictures, which needs
a browser.

Cost: none to speak of. Caveat: what is not among the marks below cannot be drawn.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Numbers: TypeAlias = Sequence[float | None]

COLOURS = {
    "state": "#0072B2",
    "parity": "#D55E00",
    "third": "#009E73",
    "fourth": "#A8518A",
    "fifth": "#8A6D00",
    "sixth": "#3B9AD9",
    "grey": "#5B6470",
    "faint": "#C3C9D2",
    "ink": "#1D2127",
    "paper": "#FFFFFF",
}
"""Okabe and Ito's palette, darkened for white paper; assets/page.css has it for dark screens."""

TURNS = ("third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class Line:
    """A curve, with an interval around it where `low` and `high` are given."""

    name: str
    x: Numbers
    y: Numbers
    colour: str = "state"
    dash: str = "solid"  # or dash, dot
    mark: str | None = "circle"  # or square, triangle-up, diamond
    low: Numbers | None = None
    high: Numbers | None = None
    behind: bool = False
    """Wide and pale, as what was predicted is drawn."""


@dataclass(frozen=True)
class Heat:
    """A grid of cells z[y][x], None where nothing was measured."""

    x: Sequence[float]
    y: Sequence[float]
    z: Sequence[Numbers]
    label: str
    low: float = 0.0
    high: float = 1.0
    more: tuple[tuple[str, Sequence[Numbers]], ...] = ()
    """Further numbers for whoever points at a cell: (name, grid)."""


@dataclass(frozen=True)
class Edges:
    """Straight segments ((x, y), (x, y)), such as those of a tree; widths by weight."""

    name: str
    ends: Sequence[tuple[tuple[float, float], tuple[float, float]]]
    texts: Sequence[str] = ()
    colour: str = "state"


@dataclass(frozen=True)
class Dots:
    """Points in the plane."""

    name: str
    x: Numbers
    y: Numbers
    texts: Sequence[str] = ()
    colour: str = "grey"
    mark: str = "circle"
    size: float = 6.0
    labelled: bool = False
    """Whether the texts stand beside the points, or only show when pointed at."""


@dataclass(frozen=True)
class Bars:
    """Upright bars, so wide, with a thin line from `low` to `high` on each."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    texts: Sequence[str]
    colour: str = "state"
    width: float = 0.7


@dataclass(frozen=True)
class ReferenceLine:
    """A line across the panel at a value of one axis, with a few words."""

    axis: str  # x or y
    at: float
    text: str = ""
    colour: str = "grey"
    dash: str = "dash"
    beside: tuple[str, float] | None = None
    """Of an upright line: its words lie ("left" or "right") of it, at that share of the height;
    None where they go along it."""


@dataclass(frozen=True)
class Band:
    """A shaded stretch of the x axis, with a few words."""

    start: float
    end: float
    text: str = ""


@dataclass(frozen=True)
class Cloud:
    """Points in space."""

    name: str
    points: Sequence[Sequence[float]]  # [n][3]
    texts: Sequence[str]
    colour: str = "state"
    mark: str = "circle"
    size: float = 3.0
    strong: bool = False
    """Opaque, with its texts beside the points."""


@dataclass(frozen=True)
class Path3:
    """Segments in space: pairs of points."""

    name: str
    ends: Sequence[tuple[Sequence[float], Sequence[float]]]
    colour: str = "ink"
    dash: str = "solid"


@dataclass(frozen=True)
class Plane:
    """A pale quadrilateral in space, by its four corners in turn."""

    name: str
    corners: Sequence[Sequence[float]]
    colour: str = "state"


Mark: TypeAlias = Line | Heat | Edges | Dots | Bars | ReferenceLine | Band | Cloud | Path3 | Plane


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Attributes:
        x, y, z: what the axes show; `z` makes it a panel in space.
        x_range, y_range: from, to; None to fit. `down` puts small y on top, as layers are drawn.
        whole: axes ("x", "y", "xy") that only have whole numbers.
        ticks: (value, text) along x instead of numbers.
        eye: where a panel in space is looked at from.
        box: from, to along each of its axes; None to fit.
        tall: its height, as a multiple of the usual one.
        bare: without grid lines.
    """

    x: str
    y: str
    marks: tuple[Mark, ...]
    title: str = ""
    z: str | None = None
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    down: bool = False
    whole: str = ""
    ticks: tuple[tuple[float, str], ...] = ()
    log_x: bool = False
    eye: tuple[float, float, float] = (1.5, 1.5, 0.9)
    box: tuple[tuple[float, float], ...] | None = None
    tall: float = 1.0
    bare: bool = False

    @property
    def heat(self) -> Heat | None:
        return next((mark for mark in self.marks if isinstance(mark, Heat)), None)

    def extent(self, axis: str) -> tuple[float, float] | None:
        """From where to where an axis ("x" or "y") goes: as given, or to hold all marks."""
        given = self.x_range if axis == "x" else self.y_range
        if given is not None or self.z is not None:
            return given
        values: list[float] = []
        for mark in self.marks:
            if isinstance(mark, Heat):
                cells = list(mark.x if axis == "x" else mark.y)
                half = (cells[-1] - cells[0]) / max(1, len(cells) - 1) / 2 or 0.5
                values += [cells[0] - half, cells[-1] + half]
            elif isinstance(mark, Line | Dots):
                found = [v for v in (mark.x if axis == "x" else mark.y) if v is not None]
                space = 0.6 if isinstance(mark, Dots) else 0.0
                values += [min(found) - space, max(found) + space] if found else []
        if not values:
            return None
        low, high = min(values), max(values)
        if self.heat is not None:
            return low, high
        if self.log_x and axis == "x":
            return low / 1.15, high * 1.15
        margin = 0.04 * (high - low) or 0.5
        return low - margin, high + margin

    def rows(self) -> Iterator[dict[str, Any]]:
        """The numbers in the picture, one row per point or cell."""
        about = {"panel": self.title} if self.title else {}
        for mark in self.marks:
            row: dict[str, Any]
            if isinstance(mark, Heat):
                for i, y in enumerate(mark.y):
                    for j, x in enumerate(mark.x):
                        row = {self.x: x, self.y: y, mark.label: mark.z[i][j]}
                        yield about | row | {name: grid[i][j] for name, grid in mark.more}
            elif isinstance(mark, Line):
                for i, at in enumerate(mark.x):
                    row = {"series": mark.name, self.x: at, self.y: mark.y[i]}
                    if mark.low is not None and mark.high is not None:
                        row |= {"low": mark.low[i], "high": mark.high[i]}
                    yield about | row
            elif isinstance(mark, Cloud):
                for text, point in zip(mark.texts, mark.points, strict=True):
                    place = dict(zip((self.x, self.y, str(self.z)), point, strict=True))
                    yield about | {"series": mark.name, "what": text} | place
            elif isinstance(mark, Dots | Bars):
                for i, at in enumerate(mark.x):
                    what = {"what": mark.texts[i]} if mark.texts else {}
                    yield about | {"series": mark.name, self.x: at, self.y: mark.y[i]} | what
            elif isinstance(mark, Edges):
                for i, (a, b) in enumerate(mark.ends):
                    row = {"from x": a[0], "from y": a[1], "to x": b[0], "to y": b[1]}
                    what = {"what": mark.texts[i]} if mark.texts else {}
                    yield about | {"series": mark.name} | row | what
            elif isinstance(mark, ReferenceLine):
                yield about | {"series": mark.text, self.x if mark.axis == "x" else self.y: mark.at}


@dataclass(frozen=True)
class Chart:
    """A figure: panels that belong together, what it shows in a few words, and how to read it."""

    name: str
    title: str
    panels: tuple[Panel, ...] = field(repr=False)  # thousands of numbers
    about: str = ""

    def rows(self) -> list[dict[str, Any]]:
        return [row for panel in self.panels for row in panel.rows()]

    def write_csv(self, path: Path) -> None:
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)

    def plotly(self) -> Any:
        """A plotly Figure with all panels, for notebooks."""
        from statetrace.report.figures import notebook

        return notebook.figure(self)

    def save(self, path: Path) -> None:
        """A picture file, vector or not by the ending of its name."""
        from statetrace.report.figures import matplotlib_renderer as paper

        paper.save(self, path)

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return self.plotly()._repr_mimebundle_(**asked)


def plain(value: Any) -> float | None:
    """A number short enough to embed by the thousand; None for what is not one."""
    number = float(value) if value is not None else math.nan
    return float(f"{number:.4g}") if math.isfinite(number) else None


def numbers(values: Any) -> list[float | None]:
    return [plain(value) for value in values]


def grid(values: Any) -> list[list[float | None]]:
    return [numbers(row) for row in values]
