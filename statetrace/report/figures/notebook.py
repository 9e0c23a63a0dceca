"""Charts for notebooks: one plotly Figure with all panels, in the colours of light paper.

Cost: importing plotly, a second; nothing else in statetrace does.
"""

from __future__ import annotations

from html import escape
from typing import Any

from statetrace.report.figures.chart import Chart
from statetrace.report.figures.plotly_renderer import HEIGHT, coloured, picture

ACROSS = 3
"""Panels side by side; four make a square."""
BAR = 70
"""Pixels for a colour bar."""


def figure(chart: Chart) -> Any:
    """One plotly Figure with the panels in rows, a legend below and colour bars at the right."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    count = len(chart.panels)
    across = 2 if count == 4 else min(ACROSS, count)
    rows = -(-count // across)
    kinds: list[Any] = [{"type": "scene" if p.z is not None else "xy"} for p in chart.panels]
    kinds += [None] * (rows * across - count)
    made = make_subplots(
        rows,
        across,
        specs=[kinds[i * across : (i + 1) * across] for i in range(rows)],
        subplot_titles=[escape(p.title) for p in chart.panels],
        vertical_spacing=0.3 / rows,
    )
    scenes = flats = 0
    for place, panel in enumerate(chart.panels):
        drawn = coloured(picture(panel))
        row, column = divmod(place, across)
        made.add_traces(drawn["data"], rows=row + 1, cols=column + 1)
        layout = drawn["layout"]
        if panel.z is not None:
            scenes += 1
            made.update_layout({f"scene{scenes if scenes > 1 else ''}": layout["scene"]})
            continue
        flats += 1
        number = str(flats) if flats > 1 else ""
        made.update_layout({f"xaxis{number}": layout["xaxis"], f"yaxis{number}": layout["yaxis"]})
        for shape in layout["shapes"]:
            made.add_shape(_moved(shape, number))
        for words in layout["annotations"]:
            made.add_annotation(_moved(words, number))
    bars = _one_bar_each([trace for trace in made.data if isinstance(trace, go.Heatmap)])
    keys = _one_key_each(made.data)
    below = 110 if keys else 50
    tall = rows * HEIGHT * max(panel.tall for panel in chart.panels)
    made.update_layout(
        title=escape(chart.title),
        height=tall + 60 * rows + below,
        template="plotly_white",
        showlegend=True,
        barmode="overlay",  # each bar says where it stands
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        margin={"b": below, "r": 40 + BAR * bars},
    )
    return made


def _one_key_each(traces: Any) -> int:
    """A name that several panels share stands in the legend once, and switches all of them; how
    many names there are."""
    seen: set[str] = set()
    for trace in traces:
        if trace.name is None or trace.type == "heatmap":
            continue
        trace.legendgroup = trace.name
        trace.showlegend = trace.showlegend is not False and trace.name not in seen
        if trace.showlegend:
            seen.add(trace.name)
    return len(seen)


def _one_bar_each(heats: list[Any]) -> int:
    """A colour bar for each scale, one beside the other; how many there are."""
    scales: dict[tuple[Any, ...], Any] = {}
    for heat in heats:
        scales.setdefault((heat.colorbar.title.text, heat.zmin, heat.zmax), heat)
    for number, heat in enumerate(scales.values()):
        heat.showscale = True
        heat.colorbar.update(xref="paper", x=1, xanchor="left", xpad=10 + BAR * number)
    return len(scales)


def _moved(shape: dict[str, Any], number: str) -> dict[str, Any]:
    """A shape or a text for the axes of that number."""
    found = dict(shape)
    for axis in ("x", "y"):
        ref = found[f"{axis}ref"]
        found[f"{axis}ref"] = axis + number + ref[1:]
    return found
