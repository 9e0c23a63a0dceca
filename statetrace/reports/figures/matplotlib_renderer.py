"""Charts for paper: vector files of text width with embedded fonts, drawn by matplotlib.

Cost: half a second each. Caveat: three-dimensional panels use matplotlib's projection and look
slightly different from those of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.reports.figures.chart import (
    COLOURS,
    Band,
    Bars,
    Chart,
    Cloud,
    Dots,
    Edges,
    Heat,
    Line,
    Mark,
    Panel,
    Path3,
    Plane,
    ReferenceLine,
)

FORMATS = ("pdf", "svg", "png")
"""Not EPS: without transparency, bands and planes would hide other marks."""
WIDTH = 6.75
"""Inches: the text width of a two-column page."""
ACROSS = 3
"""Panels per row."""
HEIGHT = 2.1
MEANS = 5.0
"""Smallest size of three-dimensional points that get a legend entry."""

_STYLE = {
    "pdf.fonttype": 42,  # TrueType, embedded: journals refuse Type 3
    "svg.fonttype": "path",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": COLOURS["faint"],
    "grid.linewidth": 0.4,
    "figure.constrained_layout.h_pad": 0.06,
    "svg.hashsalt": "statetrace",  # equal numbers give equal files
}
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_MARKS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "triangle-down": "v",
    "diamond": "D",
}


def save(chart: Chart, path: Path) -> None:
    """Draw all panels into one file."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise StatetraceError(
            f"cannot draw '{path}'; its name must end in one of {', '.join(FORMATS)}"
        )
    dates = {"CreationDate": None} if kind == "pdf" else {"Date": None} if kind == "svg" else {}
    _render(chart, path, dpi=200, metadata=dates or None)


def png(chart: Chart) -> bytes:
    """All panels as a picture for notebooks."""
    picture = BytesIO()
    _render(chart, picture, dpi=120, format="png")
    return picture.getvalue()


def _render(chart: Chart, target: Path | BytesIO, **options: Any) -> None:
    import matplotlib
    from matplotlib.figure import Figure  # not pyplot: a notebook keeps its own backend

    across = chart.columns or _across(chart.panels)
    down = -(-len(chart.panels) // across)
    tall = max(panel.tall for panel in chart.panels)
    width = WIDTH * max(1.0, across / ACROSS) if across > 1 else WIDTH * 0.66
    with matplotlib.rc_context(_STYLE):
        lines = chart.title.count("\n")
        height = 0.35 + 0.15 * lines + HEIGHT * tall * down
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.suptitle(chart.title, fontsize=9)
        for number, panel in enumerate(chart.panels, start=1):
            projection = None if panel.z is None else "3d"
            axes = figure.add_subplot(down, across, number, projection=projection)
            _draw(axes, panel)
            if panel.heat is not None and _ends_scale(chart.panels, number, across):
                bar = figure.colorbar(axes.images[0], ax=axes, pad=0.02, aspect=14)
                bar.set_label(panel.heat.label)
                bar.outline.set_linewidth(0.4)
        _legend(figure, 4 if across > 1 else 3)
        figure.savefig(target, **options)


def _across(panels: Sequence[Panel]) -> int:
    """Panels per row; fewer if bars have many labels below them."""
    bars = [panel for panel in panels if any(isinstance(mark, Bars) for mark in panel.marks)]
    names = max((len(panel.ticks) for panel in bars), default=0)
    most = 1 if names > 7 else 2 if names > 5 or len(panels) == 4 else ACROSS
    return min(most, len(panels))


def _ends_scale(panels: Sequence[Panel], number: int, across: int) -> bool:
    """Whether this panel gets a colour bar: neighbours in a row share one."""
    if number % across == 0 or number == len(panels):
        return True
    here, after = (panels[i].heat for i in (number - 1, number))
    return here is None or after is None or here.scale != after.scale


def _legend(figure: Any, across: int) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    if handles:
        place = {"loc": "outside lower center", "ncols": min(across, len(handles))}
        figure.legend(list(handles.values()), list(handles), frameon=False, **place)


def _draw(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    for mark in panel.marks:
        _mark(axes, mark, panel)
    axes.set_title(panel.title, loc="left", color=COLOURS["ink"])
    if panel.z is not None:
        axes.set(xlabel=panel.x, ylabel=panel.y, zlabel=panel.z)
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.set_major_locator(MaxNLocator(nbins=4))
        if panel.box is None:
            axes.set_aspect("equal")
        else:
            axes.set(**dict(zip(("xlim", "ylim", "zlim"), panel.box, strict=True)))
            sides = [high - low for low, high in panel.box]
            axes.set_box_aspect(sides, zoom=0.76)  # room for the axis labels
        x, y, z = panel.eye
        axes.view_init(*np.degrees([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)]).tolist())
        axes.set_proj_type("ortho")
        axes.tick_params(labelsize=6, pad=-2)
        return
    axes.set(xlabel=panel.x, ylabel=panel.y)
    if panel.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
    if panel.x_range is not None:
        axes.set_xlim(panel.x_range)
    if panel.y_range is not None:
        axes.set_ylim(panel.y_range)
    if panel.down:
        low, high = sorted(axes.get_ylim())
        axes.set_ylim(high, low)
    _ticks(axes, panel)


def _ticks(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    if panel.ticks:
        values, texts = zip(*panel.ticks, strict=True)
        axes.set_xticks(values, texts, fontsize=6 if len(texts) > 12 else 7)
        axes.tick_params(axis="x", rotation=0 if panel.log_x or len(texts) <= 8 else 90)
    elif "x" in panel.whole and not panel.log_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    if panel.y_ticks:
        axes.set_yticks(*zip(*panel.y_ticks, strict=True), fontsize=7)
    elif "y" in panel.whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def _mark(axes: Any, mark: Mark, panel: Panel) -> None:
    if isinstance(mark, Line):
        _line(axes, mark)
    elif isinstance(mark, Heat):
        _heat(axes, mark)
    elif isinstance(mark, Edges):
        for number, (start, end) in enumerate(mark.ends):
            label, ends = (mark.name if number == 0 else None), zip(start, end, strict=True)
            axes.plot(*ends, color=COLOURS[mark.colour], linewidth=0.8, alpha=0.75, label=label)
    elif isinstance(mark, Bars):
        style = {"width": mark.width, "color": COLOURS[mark.colour], "zorder": 2}
        axes.bar(mark.x, mark.y, label=mark.name, edgecolor="white", linewidth=0.5, **style)
        axes.vlines(mark.x, mark.low, mark.high, color=COLOURS["ink"], linewidth=0.7, zorder=3)
    elif isinstance(mark, Dots):
        style = {"marker": _MARKS[mark.mark], "s": mark.size**2 / 2.5, "zorder": 3}
        axes.scatter(
            mark.x, mark.y, color=COLOURS[mark.colour], label=mark.name, clip_on=False, **style
        )
        for x, y, text in zip(mark.x, mark.y, mark.texts, strict=False) if mark.labelled else ():
            away = 1 + mark.size / 3
            offset, side = ((0, -away), "top") if mark.below else ((0, away), "baseline")
            place: dict[str, Any] = {"xytext": offset, "textcoords": "offset points", "va": side}
            axes.annotate(text, (x, y), ha="center", fontsize=6, **place)
    elif isinstance(mark, ReferenceLine):
        _reference_line(axes, mark)
    elif isinstance(mark, Band):
        axes.axvspan(mark.start, mark.end, color=COLOURS["faint"], alpha=0.35, linewidth=0)
        place = {"xy": (mark.end, 1), "xycoords": ("data", "axes fraction"), "ha": "right"}
        axes.annotate(mark.text, va="bottom", fontsize=6.5, color=COLOURS["grey"], **place)
    else:
        _in_space(axes, mark, panel)


def _line(axes: Any, mark: Line) -> None:
    colour = COLOURS[mark.colour]
    y = np.array(mark.y, dtype=float)  # None becomes NaN, a gap
    style: dict[str, Any] = {"linewidth": 1.2}
    if mark.behind:
        style = {"linewidth": 5, "alpha": 0.25, "solid_capstyle": "round"}
    elif mark.mark is not None and len(mark.x) <= 40:
        style |= {"marker": _MARKS[mark.mark], "markersize": 3}
    axes.plot(mark.x, y, color=colour, linestyle=_DASHES[mark.dash], label=mark.name, **style)
    if mark.low is not None and mark.high is not None:
        low, high = (np.array(edge, dtype=float) for edge in (mark.low, mark.high))
        axes.fill_between(mark.x, low, high, color=colour, alpha=0.18, linewidth=0)


def _heat(axes: Any, mark: Heat) -> None:
    z = np.array(mark.z, dtype=float)  # None becomes NaN
    style = {"cmap": "cividis", "aspect": "auto", "interpolation": "nearest", "origin": "lower"}
    extent = (*mark.edges("x"), *mark.edges("y"))
    axes.imshow(z, vmin=mark.low, vmax=mark.high, extent=extent, **style)


def _reference_line(axes: Any, mark: ReferenceLine) -> None:
    colour, style = COLOURS[mark.colour], _DASHES[mark.dash]
    font = {"fontsize": 6.5, "color": COLOURS["grey"]}
    if mark.axis == "x":
        axes.axvline(mark.at, color=colour, linestyle=style, linewidth=0.8)
        place: dict[str, Any] = {"xy": (mark.at, 1), "xycoords": ("data", "axes fraction")}
        place |= {"ha": "left", "va": "top", "rotation": 90 if len(mark.text) > 2 else 0}
        place |= {"xytext": (1, -1), "textcoords": "offset points"}
        if mark.beside is not None:
            side, height, at = mark.beside
            left = side == "left"
            place |= {"xy": (at, height), "va": "bottom", "rotation": 0}
            place |= {"ha": "right" if left else "left", "xytext": (-2 if left else 2, 0)}
    else:
        axes.axhline(mark.at, color=colour, linestyle=style, linewidth=0.8)
        place = {"xy": (0.01, mark.at), "xycoords": ("axes fraction", "data"), "va": "bottom"}
    if mark.text:
        axes.annotate(mark.text, **place, **font)


def _in_space(axes: Any, mark: Cloud | Path3 | Plane, panel: Panel) -> None:
    colour = COLOURS[mark.colour]
    if isinstance(mark, Cloud):
        points = np.array(mark.points, dtype=float).reshape(-1, 3)
        # matplotlib does not clip in three dimensions
        if panel.box is not None and not mark.strong:
            low, high = np.array(panel.box).T
            points = points[((points >= low) & (points <= high)).all(1)]
        share, alpha = (0.9, 1.0) if mark.strong else (0.6, 0.4)
        style = {"s": share * mark.size**2, "alpha": alpha, "marker": _MARKS.get(mark.mark, "o")}
        label = mark.name if mark.strong or mark.size >= MEANS else None
        axes.scatter(*points.T, color=colour, depthshade=False, linewidths=0, label=label, **style)
        for point, text in zip(points, mark.texts, strict=True) if mark.strong else ():
            axes.text(*point, f"  {text}", fontsize=7, zorder=9, va="bottom")
    elif isinstance(mark, Path3):
        for start, end in mark.ends:
            ends = zip(start, end, strict=True)
            axes.plot(*ends, color=colour, linestyle=_DASHES[mark.dash], linewidth=1)
    else:
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection

        plane = Poly3DCollection([mark.corners], facecolor=colour, edgecolor="none", alpha=0.1)
        axes.add_collection3d(plane)
