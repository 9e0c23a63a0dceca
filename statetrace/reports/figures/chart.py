"""A figure as plain numbers: panels of lines, heat maps and points, independent of plotting
libraries.

Every figure is a function that returns a `Chart`. Two small renderers draw it: plotly_renderer.py
for the page and for notebooks, matplotlib_renderer.py for vector files. One description with two
renderers ensures that page and paper show the same numbers, and exporting plotly's own figures
would need a browser.

Caveat: only the marks below can be drawn.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from statetrace.config.checks import as_path

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
"""The palette of Okabe and Ito, darkened for white paper; assets/page.css adapts it to dark
screens."""

TURNS = ("third", "fourth", "fifth", "sixth")
TARGETS = {"state": ("state", "circle"), "parity": ("parity", "square")}


def target_styles(targets: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Color and mark of the state, of parity, and of other quotients in turn."""
    turns = cycle(TURNS)
    names = dict.fromkeys(targets)
    return {name: TARGETS.get(name) or (next(turns), "diamond") for name in names}


@dataclass(frozen=True)
class Line:
    """A curve, with a band from `low` to `high` if given."""

    name: str
    x: Numbers
    y: Numbers
    colour: str = "state"
    dash: str = "solid"  # or dash, dot
    mark: str | None = "circle"  # or square, triangle-up, diamond
    low: Numbers | None = None
    high: Numbers | None = None
    behind: bool = False
    """Wide and pale, for predictions."""


@dataclass(frozen=True)
class Heat:
    """A grid of cells z[y][x], None where there is no value."""

    x: Sequence[float]
    y: Sequence[float]
    z: Sequence[Numbers]
    label: str
    low: float = 0.0
    high: float = 1.0
    more: tuple[tuple[str, Sequence[Numbers]], ...] = ()
    """Further numbers in the tooltip of a cell: (name, grid)."""

    @property
    def scale(self) -> tuple[str, float, float]:
        """Heat maps with the same one share a colour bar."""
        return self.label, self.low, self.high

    def edges(self, axis: str) -> tuple[float, float]:
        """The outer edges of its evenly spaced cells along an axis ("x" or "y")."""
        centres = self.x if axis == "x" else self.y
        half = (centres[-1] - centres[0]) / max(1, len(centres) - 1) / 2 or 0.5
        return centres[0] - half, centres[-1] + half


@dataclass(frozen=True)
class Edges:
    """Straight segments ((x, y), (x, y)), such as those of a tree."""

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
    """Whether the texts are drawn above the points, or only in tooltips."""
    below: bool = False
    """Draw them below the points instead."""


@dataclass(frozen=True)
class Bars:
    """Vertical bars with an error bar from `low` to `high` on each."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    texts: Sequence[str]
    colour: str = "state"
    width: float = 0.7


class Beside(NamedTuple):
    """The label is to the "left" or "right" of the value `at`; its height is a share of the
    panel's."""

    side: str
    height: float
    at: float


@dataclass(frozen=True)
class ReferenceLine:
    """A line across the panel at a value of one axis, with a label."""

    axis: str  # x or y
    at: float
    text: str = ""
    colour: str = "grey"
    dash: str = "dash"
    beside: Beside | None = None
    """Of a vertical line: where its label is; None for a label along the line."""


@dataclass(frozen=True)
class Band:
    """A shaded range of the x axis, with a label above the panel."""

    start: float
    end: float
    text: str = ""


@dataclass(frozen=True)
class Cloud:
    """Points in three dimensions."""

    name: str
    points: Sequence[Sequence[float]]  # [n][3]
    texts: Sequence[str]
    colour: str = "state"
    mark: str = "circle"
    size: float = 3.0
    strong: bool = False
    """Opaque, with the texts beside the points."""


@dataclass(frozen=True)
class Path3:
    """Segments in three dimensions: pairs of points."""

    name: str
    ends: Sequence[tuple[Sequence[float], Sequence[float]]]
    colour: str = "ink"
    dash: str = "solid"


@dataclass(frozen=True)
class Plane:
    """A pale quadrilateral in three dimensions, by its four corners in order."""

    name: str
    corners: Sequence[Sequence[float]]
    colour: str = "state"


Mark: TypeAlias = Line | Heat | Edges | Dots | Bars | ReferenceLine | Band | Cloud | Path3 | Plane


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Attributes:
        x, y, z: axis labels; a panel with `z` is three-dimensional.
        x_range, y_range: (low, high); None to fit the marks.
        down: small y on top, as layers are drawn.
        whole: axes ("x", "y", "xy") that have whole numbers only.
        ticks, y_ticks: (value, text) along x and y instead of numbers.
        eye: the camera position of a three-dimensional panel.
        box: (low, high) of each of its axes; None to fit the marks.
        tall: height relative to the usual one.
        bare: no grid lines.
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
    y_ticks: tuple[tuple[float, str], ...] = ()
    log_x: bool = False
    eye: tuple[float, float, float] = (1.5, 1.5, 0.9)
    box: tuple[tuple[float, float], ...] | None = None
    tall: float = 1.0
    bare: bool = False

    @property
    def heat(self) -> Heat | None:
        return next((mark for mark in self.marks if isinstance(mark, Heat)), None)

    def extent(self, axis: str) -> tuple[float, float] | None:
        """The range of an axis ("x" or "y"): as given, or to fit all marks."""
        limits = self.x_range if axis == "x" else self.y_range
        if limits is not None or self.z is not None:
            return limits
        values: list[float] = []
        for mark in self.marks:
            if isinstance(mark, Heat):
                values += mark.edges(axis)
            elif isinstance(mark, Line | Dots):
                known = [v for v in (mark.x if axis == "x" else mark.y) if v is not None]
                space = 0.6 if isinstance(mark, Dots) else 0.0
                values += [min(known) - space, max(known) + space] if known else []
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
        """The numbers of the panel, one row per point or cell."""
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


def target_lines(
    x: Numbers, shares: Mapping[str, Iterable[Any]], marked: bool = True
) -> list[Line]:
    """A curve for the state and each quotient, in their colours."""
    return [
        Line(name, x, numbers(shares[name]), colour, mark=mark if marked else None)
        for name, (colour, mark) in target_styles(shares).items()
    ]


def share_panel(x: str, y: str, marks: Iterable[Mark], title: str = "", **settings: Any) -> Panel:
    """A panel of accuracies or other shares, from 0 to a little above 1."""
    return Panel(x, y, tuple(marks), title, y_range=(0, 1.04), **settings)


@dataclass(frozen=True)
class Chart:
    """A figure: panels that belong together, with a title and a paragraph on how to read them.

    `columns` fixes the number of panels per row of a picture file; 0 chooses it.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    about: str = ""
    columns: int = 0

    def __repr__(self) -> str:
        panels = "1 panel" if len(self.panels) == 1 else f"{len(self.panels)} panels"
        return f"<Chart {self.name}: {self.title} ({panels}); .save(PATH) draws it>"

    def rows(self) -> list[dict[str, Any]]:
        return [row for panel in self.panels for row in panel.rows()]

    def write_csv(self, path: Path | str) -> None:
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        with Path(path).open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)

    def plotly(self) -> Any:
        """A plotly Figure with all panels."""
        from statetrace.reports.figures import notebook

        return notebook.figure(self)

    def save(self, path: Path | str) -> None:
        """Write a PDF, SVG or PNG file, by the suffix of the path."""
        from statetrace.reports.figures import matplotlib_renderer

        matplotlib_renderer.save(self, as_path("path", path))

    def _repr_png_(self) -> bytes:
        """For code hosts, and notebooks without plotly's extension."""
        from statetrace.reports.figures import matplotlib_renderer

        return matplotlib_renderer.png(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """Without HTML, which plotly would have fetch its script from the network."""
        return {"application/vnd.plotly.v1+json": json.loads(self.plotly().to_json())}


def plain(value: Any) -> float | None:
    """A number rounded to four digits, to embed by the thousand; None if it is not finite."""
    number = float(value) if value is not None else math.nan
    return float(f"{number:.4g}") if math.isfinite(number) else None


def numbers(values: Any) -> list[float | None]:
    return [plain(value) for value in values]


def grid(values: Any) -> list[list[float | None]]:
    return [numbers(row) for row in values]
