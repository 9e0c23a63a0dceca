"""Charts for notebooks: one plotly Figure with all panels, in the colours of light paper.

Cost: importing plotly, a second; nothing else in statetrace does.
"""

from __future__ import annotations

from html import escape
from typing import Any

from statetrace.report.figures.chart import Chart
from statetrace.report.figures.screen import HEIGHT, coloured, picture


def figure(chart: Chart) -> Any:
    """One plotly Figure with the panels side by side, in the colours of light paper."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    kinds = [{"type": "scene" if panel.z is not None else "xy"} for panel in chart.panels]
    made = make_subplots(
        1, len(kinds), specs=[kinds], subplot_titles=[escape(p.title) for p in chart.panels]
    )
    scenes = flats = 0
    for column, panel in enumerate(chart.panels, start=1):
        drawn = coloured(picture(panel))
        made.add_traces(drawn["data"], rows=1, cols=column)
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
    height = HEIGHT * max(panel.tall for panel in chart.panels) + 90
    made.update_layout(
        title=escape(chart.title), height=height, template="plotly_white", showlegend=True
    )
    scales = [trace for trace in made.data if isinstance(trace, go.Heatmap)]
    for trace in scales[-1:]:
        trace.showscale = True
    return made


def _moved(shape: dict[str, Any], number: str) -> dict[str, Any]:
    """A shape or a text for the axes of that number."""
    found = dict(shape)
    for axis in ("x", "y"):
        ref = found[f"{axis}ref"]
        found[f"{axis}ref"] = axis + number + ref[1:]
    return found
