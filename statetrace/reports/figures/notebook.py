"""Charts for notebooks: one plotly Figure with all panels, in the colours of light paper.

Cost: importing plotly takes a second; no other module does.
"""

from __future__ import annotations

from html import escape
from typing import Any

from statetrace.reports.figures.chart import Chart
from statetrace.reports.figures.plotly_renderer import HEIGHT, coloured, picture

ACROSS = 3
"""Panels per row; four panels form a square."""
BAR = 70
"""Width of a colour bar in pixels."""


def figure(chart: Chart) -> Any:
    """A plotly Figure with the panels in rows, a legend below and colour bars at the right."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    count = len(chart.panels)
    across = 2 if count == 4 else min(ACROSS, count)
    rows = -(-count // across)
    kinds: list[Any] = [{"type": "scene" if p.z is not None else "xy"} for p in chart.panels]
    kinds += [None] * (rows * across - count)
    specs = [kinds[i * across : (i + 1) * across] for i in range(rows)]
    titles, gap = [escape(p.title) for p in chart.panels], 0.3 / rows
    result = make_subplots(rows, across, specs=specs, subplot_titles=titles, vertical_spacing=gap)
    scenes = flats = 0
    for place, panel in enumerate(chart.panels):
        drawn = coloured(picture(panel))
        row, column = divmod(place, across)
        result.add_traces(drawn["data"], rows=row + 1, cols=column + 1)
        layout = drawn["layout"]
        if panel.z is not None:
            scenes += 1
            result.update_layout({f"scene{scenes if scenes > 1 else ''}": layout["scene"]})
            continue
        flats += 1
        number = str(flats) if flats > 1 else ""
        result.update_layout({f"xaxis{number}": layout["xaxis"], f"yaxis{number}": layout["yaxis"]})
        for shape in layout["shapes"]:
            result.add_shape(_moved(shape, number))
        for label in layout["annotations"]:
            result.add_annotation(_moved(label, number))
    bars = _one_bar_each([trace for trace in result.data if isinstance(trace, go.Heatmap)])
    keys = _one_key_each(result.data)
    below = 110 if keys else 50
    tall = rows * HEIGHT * max(panel.tall for panel in chart.panels)
    result.update_layout(
        title=escape(chart.title),
        height=tall + 60 * rows + below,
        template="plotly_white",
        showlegend=True,
        barmode="overlay",  # bars have their own positions
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        margin={"b": below, "r": 40 + BAR * bars},
    )
    return result


def _one_key_each(traces: Any) -> int:
    """List each name in the legend once, toggling all traces of that name; returns the number of
    names."""
    listed: set[str] = set()
    for trace in traces:
        if trace.name is None or trace.type == "heatmap":
            continue
        trace.legendgroup = trace.name
        trace.showlegend = trace.showlegend is not False and trace.name not in listed
        if trace.showlegend:
            listed.add(trace.name)
    return len(listed)


def _one_bar_each(heats: list[Any]) -> int:
    """One colour bar per scale, side by side; returns their number."""
    scales: dict[tuple[Any, ...], Any] = {}
    for heat in heats:
        scales.setdefault((heat.colorbar.title.text, heat.zmin, heat.zmax), heat)
    for number, heat in enumerate(scales.values()):
        heat.showscale = True
        heat.colorbar.update(xref="paper", x=1, xanchor="left", xpad=10 + BAR * number)
    return len(scales)


def _moved(shape: dict[str, Any], number: str) -> dict[str, Any]:
    """A shape or label for the axes of that number."""
    refs = {f"{axis}ref": axis + number + shape[f"{axis}ref"][1:] for axis in ("x", "y")}
    return shape | refs
