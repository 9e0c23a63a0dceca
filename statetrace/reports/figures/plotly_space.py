"""The three-dimensional marks of plotly_renderer.py: points, edges and planes.

Caveat: browsers draw these with WebGL; without it plotly shows a message in the panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import hypot
from typing import Any

from statetrace.reports.figures.chart import Cloud, Panel, Path3, Plane

BROAD = 0.88
"""Camera distance relative to the diagonal of wide boxes, so that they fit a narrow panel."""
STRAIGHT = 1.3
"""The longest visible side in an orthographic view."""
_MARKS_3D = {"triangle-up": "diamond", "square": "square", "diamond": "diamond"}


def scene(panel: Panel) -> dict[str, Any]:
    plain = {"showbackground": False, "gridcolor": "@faint", "zerolinecolor": "@faint"}
    plain |= {"tickfont": {"size": 10, "color": "@grey"}, "nticks": 4}
    names = zip(("xaxis", "yaxis", "zaxis"), (panel.x, panel.y, str(panel.z)), strict=True)
    axes = {name: plain | {"title": {"text": escape(text)}} for name, text in names}
    eye = dict(zip("xyz", panel.eye, strict=True))
    # slightly below the centre, to leave room for the axis labels
    camera: dict[str, Any] = {"eye": eye, "center": {"x": 0, "y": 0, "z": -0.1}}
    camera["projection"] = {"type": "perspective"}
    if panel.box is None:
        return axes | {"aspectmode": "data", "camera": camera}
    for axis, limits in zip(axes.values(), panel.box, strict=True):
        axis["range"] = list(limits)
    sides = dict(zip("xyz", (high - low for low, high in panel.box), strict=True))
    if 0 in panel.eye:  # orthographic: perspective would distort angles
        visible = [side for axis, side in sides.items() if abs(eye[axis]) < 0.1]
        size = STRAIGHT / max(visible)
        camera |= {"projection": {"type": "orthographic"}, "center": dict.fromkeys("xyz", 0)}
    else:  # the longest side is 1, so that boxes of any shape fit
        size = 1 / max(sides.values())
        distance = max(1.0, BROAD * size * hypot(sides["x"], sides["y"]))
        camera["eye"] = {axis: round(distance * value, 4) for axis, value in eye.items()}
    ratio = {axis: round(size * side, 4) for axis, side in sides.items()}
    return axes | {"aspectmode": "manual", "aspectratio": ratio, "camera": camera}


def _in_space(kind: str, mark: Cloud | Path3 | Plane, points: Sequence[Any]) -> dict[str, Any]:
    axes = {axis: [point[i] for point in points] for i, axis in enumerate("xyz")}
    return {"type": kind, "name": escape(mark.name)} | axes


def cloud(mark: Cloud) -> dict[str, Any]:
    return _in_space("scatter3d", mark, mark.points) | {
        "mode": "markers+text" if mark.strong else "markers",
        "text": [escape(text) for text in mark.texts],
        "textfont": {"color": "@ink", "size": 12},
        "marker": {
            "size": mark.size,
            "color": f"@{mark.colour}",
            "symbol": _MARKS_3D.get(mark.mark, "circle"),
            "opacity": 1.0 if mark.strong else 0.45,
        },
        "hovertemplate": "%{text}<br>%{x:.3~g}, %{y:.3~g}, %{z:.3~g}<extra></extra>",
    }


def path(mark: Path3) -> dict[str, Any]:
    points = [point for ends in mark.ends for point in (*ends, (None, None, None))]
    return _in_space("scatter3d", mark, points) | {
        "mode": "lines",
        "line": {"color": f"@{mark.colour}", "width": 4, "dash": mark.dash},
        "hoverinfo": "skip",
    }


def plane(mark: Plane) -> dict[str, Any]:
    return _in_space("mesh3d", mark, mark.corners) | {
        "i": [0, 0],
        "j": [1, 2],
        "k": [2, 3],
        "color": f"@{mark.colour}",
        "opacity": 0.12,
        "hoverinfo": "skip",
    }
