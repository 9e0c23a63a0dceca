"""Charts for screens: each panel as the data and layout of a plotly figure, in plain dictionaries.

Colours remain names ("@state"): notebook.py fills in those of light paper, the page its own, which
change with dark mode. The plotly package is not needed here.

Caveat: plotly interprets some HTML in texts, so texts from outside are escaped.
"""

from __future__ import annotations

from html import escape
from math import log10
from typing import Any

from statetrace.reports.figures import plotly_space as space
from statetrace.reports.figures.chart import (
    COLOURS,
    Band,
    Bars,
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

HEIGHT = 270
SCALE = "Cividis"
FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MARKS_UP_TO = 40
"""Longer curves have no marks, because they would overlap."""


def picture(panel: Panel) -> dict[str, Any]:
    """{"data": [...], "layout": {...}}, with colours as names."""
    data = _unique_legend([trace for mark in panel.marks for trace in _traces(mark, panel)])
    layout: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": "@ink"},
        "margin": {"l": 8, "r": 10, "t": 30 if panel.title else 10, "b": 8},
        "height": round(HEIGHT * panel.tall),
        "showlegend": False,
        "barmode": "overlay",  # bars have their own positions
        "hoverlabel": {"font": {"family": FONT}},
    }
    if panel.title:
        title = {"size": 13, "color": "@ink"}
        layout["title"] = {"text": escape(panel.title), "font": title, "x": 0.01, "y": 0.98}
        layout["title"] |= {"xanchor": "left", "yanchor": "top"}
    if panel.z is not None:
        layout["scene"] = space.scene(panel)
        layout["margin"] |= {"l": 0, "r": 0, "b": 0}
        return {"data": data, "layout": layout}
    for name, axis, label in (("xaxis", "x", panel.x), ("yaxis", "y", panel.y)):
        layout[name] = _axis(label, panel.extent(axis), axis in panel.whole)
    if panel.log_x:
        edges = layout["xaxis"].get("range", ())
        layout["xaxis"] |= {"type": "log", "dtick": log10(2), "tickformat": "d"}
        layout["xaxis"] |= {"range": [log10(edge) for edge in edges]} if edges else {}
    if panel.down and "range" in layout["yaxis"]:
        layout["yaxis"]["range"].reverse()
    for name, ticks in (("xaxis", panel.ticks), ("yaxis", panel.y_ticks)):
        if ticks:
            values, texts = zip(*ticks, strict=True)
            layout[name] |= {"tickvals": list(values), "ticktext": [escape(text) for text in texts]}
    if panel.ticks and panel.log_x:
        layout["xaxis"]["tickangle"] = 0
    for name in ("xaxis", "yaxis") if panel.heat is not None or panel.bare else ():
        layout[name]["showgrid"] = False
        if panel.heat is not None:  # a frame, because dark cells do not stand out on a dark page
            layout[name] |= {"showline": True, "mirror": True}
    shapes = [_shape(mark) for mark in panel.marks if isinstance(mark, ReferenceLine | Band)]
    layout["shapes"] = [shape for shape, _ in shapes]
    layout["annotations"] = [label for _, label in shapes if label]
    if any(isinstance(mark, Band) and mark.text for mark in panel.marks):
        layout["margin"]["t"] += 16
    return {"data": data, "layout": layout}


def _unique_legend(traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same traces, with every name in the legend once."""
    listed: set[str] = set()
    for trace in traces:
        if trace.get("name") in listed:
            trace["showlegend"] = False
        listed |= {trace["name"]} if "name" in trace else set()
    return traces


def coloured(value: Any, colours: dict[str, str] = COLOURS) -> Any:
    """The same with colour names replaced by colours."""
    if isinstance(value, dict):
        return {key: coloured(part, colours) for key, part in value.items()}
    if isinstance(value, list):
        return [coloured(part, colours) for part in value]
    return colours[value[1:]] if isinstance(value, str) and value[:1] == "@" else value


def _traces(mark: Mark, panel: Panel) -> list[dict[str, Any]]:
    if isinstance(mark, Line):
        return _line(mark, panel)
    if isinstance(mark, Heat):
        return [_heat(mark, panel)]
    if isinstance(mark, Edges):
        return _edges(mark)
    draw: Any = _SINGLE.get(type(mark))
    return [draw(mark)] if draw else []  # lines and bands are shapes


def _in_plane(kind: str, mark: Line | Dots | Bars) -> dict[str, Any]:
    return {"type": kind, "name": escape(mark.name), "x": list(mark.x), "y": list(mark.y)}


def _line(mark: Line, panel: Panel) -> list[dict[str, Any]]:
    trace: dict[str, Any] = _in_plane("scatter", mark) | {
        "line": {"color": f"@{mark.colour}", "dash": mark.dash, "width": 2},
        "mode": "lines",
        "hovertemplate": f"{panel.x} %{{x}}<br>{escape(mark.name)} %{{y:.3~g}}<extra></extra>",
    }
    if mark.behind:
        trace["line"]["width"] = 9
        trace["opacity"] = 0.28
    elif mark.mark is not None and len(mark.x) <= MARKS_UP_TO:
        trace["mode"] = "lines+markers"
        trace["marker"] = {"symbol": mark.mark, "size": 7, "color": f"@{mark.colour}"}
    if mark.low is None or mark.high is None:
        return [trace]
    trace["customdata"] = [list(pair) for pair in zip(mark.low, mark.high, strict=True)]
    interval = " (%{customdata[0]:.3~g} to %{customdata[1]:.3~g})<extra></extra>"
    trace["hovertemplate"] = trace["hovertemplate"].replace("<extra></extra>", interval)
    around = {
        "type": "scatter",
        "x": [*mark.x, *reversed(mark.x)],
        "y": [*mark.high, *reversed(mark.low)],
        "fill": "toself",
        "fillcolor": f"@{mark.colour}",
        "opacity": 0.18,
        "mode": "none",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [around, trace]


def _heat(mark: Heat, panel: Panel) -> dict[str, Any]:
    tooltip = f"{panel.x} %{{x}}<br>{panel.y} %{{y}}<br>{escape(mark.label)} %{{z:.3~g}}"
    for i, (name, _) in enumerate(mark.more):
        tooltip += f"<br>{escape(name)} %{{customdata[{i}]:.3~g}}"
    trace = {
        "type": "heatmap",
        "x": list(mark.x),
        "y": list(mark.y),
        "z": [list(row) for row in mark.z],
        "zmin": mark.low,
        "zmax": mark.high,
        "colorscale": SCALE,
        "showscale": False,
        "colorbar": {"title": {"text": escape(mark.label)}, "thickness": 12},
        "hovertemplate": tooltip + "<extra></extra>",
        "hoverongaps": False,
        "xgap": 1 if len(mark.x) <= 40 else 0,
        "ygap": 1,
    }
    if mark.more:
        rows = zip(*(cells for _, cells in mark.more), strict=True)
        trace["customdata"] = [[list(cell) for cell in zip(*row, strict=True)] for row in rows]
    return trace


def _edges(mark: Edges) -> list[dict[str, Any]]:
    x: list[float | None] = []
    y: list[float | None] = []
    for start, end in mark.ends:
        x += [start[0], end[0], None]
        y += [start[1], end[1], None]
    line = {
        "type": "scatter",
        "name": escape(mark.name),
        "x": x,
        "y": y,
        "mode": "lines",
        "line": {"color": f"@{mark.colour}", "width": 1.6},
        "opacity": 0.75,
        "hoverinfo": "skip",
    }
    if not mark.texts:
        return [line]
    middle = {
        "type": "scatter",
        "x": [(a[0] + b[0]) / 2 for a, b in mark.ends],
        "y": [(a[1] + b[1]) / 2 for a, b in mark.ends],
        "mode": "markers",
        "marker": {"size": 9, "color": f"@{mark.colour}", "opacity": 0.01},
        "text": [escape(text) for text in mark.texts],
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }
    return [line, middle]


def _dots(mark: Dots) -> dict[str, Any]:
    return _in_plane("scatter", mark) | {
        "mode": "markers+text" if mark.labelled else "markers",
        "marker": {"symbol": mark.mark, "size": mark.size, "color": f"@{mark.colour}"},
        "text": [escape(text) for text in mark.texts],
        "textposition": "bottom center" if mark.below else "top center",
        "hovertemplate": "%{text}<extra></extra>" if mark.texts else None,
    }


def _bars(mark: Bars) -> dict[str, Any]:
    return _in_plane("bar", mark) | {
        "width": mark.width,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - y for y, high in zip(mark.y, mark.high, strict=True)],
            "arrayminus": [y - low for y, low in zip(mark.y, mark.low, strict=True)],
            "color": "@ink",
            "thickness": 1.2,
            "width": 3,
        },
        "marker": {"color": f"@{mark.colour}", "line": {"color": "@paper", "width": 1}},
        "text": [escape(text) for text in mark.texts],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }


_SINGLE = {Bars: _bars, Dots: _dots, Cloud: space.cloud, Path3: space.path, Plane: space.plane}
"""Marks that are one trace."""


def _axis(title: str, limits: tuple[float, float] | None, whole: bool) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": escape(title), "standoff": 6},
        "automargin": True,
        "gridcolor": "@faint",
        "linecolor": "@faint",
        "zeroline": False,
        "tickfont": {"color": "@grey"},
    }
    if limits is not None:
        axis["range"] = list(limits)
    if whole:
        span = 7.0 if limits is None else limits[1] - limits[0]
        axis |= {"tickformat": "d", "tick0": 0, "dtick": _step(span)}
    return axis


def _step(span: float) -> int:
    """The distance between ticks at whole numbers (1, 2, 5, 10, 20, ...) that gives 4 to 9 of
    them."""
    for step in (1, 2, 5):
        if span / step <= 9:
            return step
    return 10 * _step(span / 10)


def _shape(mark: ReferenceLine | Band) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The shape of a line or band, and its label."""
    label: dict[str, Any] | None = None
    if isinstance(mark, Band):
        shape = {"type": "rect", "xref": "x", "yref": "y domain", "layer": "below", "opacity": 0.35}
        shape |= {"x0": mark.start, "x1": mark.end, "y0": 0, "y1": 1, "fillcolor": "@faint"}
        shape["line"] = {"width": 0}
        place: dict[str, Any] = {"x": mark.end, "xref": "x", "y": 1, "yref": "y domain"}
        place |= {"xanchor": "right", "yanchor": "bottom"}
    else:
        line = {"color": f"@{mark.colour}", "width": 1.3, "dash": mark.dash}
        shape = {"type": "line", "line": line}
        if mark.axis == "x":
            shape |= {"xref": "x", "yref": "y domain", "x0": mark.at, "x1": mark.at}
            shape |= {"y0": 0, "y1": 1}
            place = {"x": mark.at, "xref": "x", "y": 1, "yref": "y domain"}
            place |= {"xanchor": "left", "yanchor": "top", "xshift": 1}
            place["textangle"] = 90 if len(mark.text) > 2 else 0
            if mark.beside is not None:
                side, height, at = mark.beside
                place |= {"x": at, "y": height, "yanchor": "bottom", "textangle": 0}
                place |= {"xanchor": "right", "xshift": -2} if side == "left" else {"xshift": 2}
        else:
            shape |= {"xref": "x domain", "yref": "y", "x0": 0, "x1": 1}
            shape |= {"y0": mark.at, "y1": mark.at}
            place = {"x": 0, "xref": "x domain", "y": mark.at, "yref": "y"}
            place |= {"xanchor": "left", "yanchor": "bottom"}
    if mark.text:
        font = {"size": 11, "color": "@grey"}
        label = {"text": escape(mark.text), "showarrow": False, "font": font} | place
    return shape, label
