"""The geometry of the states: the prism in three dimensions (Figures 4 and 11 to 13), and its
measures by layer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError
from statetrace.reports.figures import geometry_views as places
from statetrace.reports.figures.chart import (
    TURNS,
    Chart,
    Cloud,
    Line,
    Panel,
    Path3,
    Plane,
    numbers,
    plain,
    share_panel,
)
from statetrace.reports.run_results import RunResults

AXES = {"parity and clusters": "decomposition", "principal components": "pca"}
EYES = {
    "oblique": (1.25, 1.15, 0.7),
    "from above": (0.01, 0.0, 1.5),
    "from the side": (1.5, 0.01, 0.0),
}
BY_PARITY = "parity"
LABELLED = 24
"""With more states, means are neither labelled nor joined."""
POINTS = 180
"""The most single activations to draw."""
STRAY = 0.04
"""Share of the points at either end of an axis that may be outside the box."""


def choices(results: RunResults) -> dict[str, list[str]]:
    result = results.need("geometry")
    layers = ["last", *(str(layer) for layer in result.arrays["layers"])]
    axes = [name for name, key in AXES.items() if f"{key}_means" in result.arrays]
    options = {"along": axes, "layer": layers, "view": list(EYES)}
    if places.objects(result):
        parity = [BY_PARITY] if results.group.parity is not None else []
        options["coloured by"] = [places.FIRST, places.CLEAREST, *parity]
    return options


def geometry(
    results: RunResults,
    along: str = "",
    layer: str = "last",
    view: str = "oblique",
    coloured_by: str = "",
) -> Chart:
    """States at one layer, by default the last. States of S4 and larger groups are coloured by the
    position of object 1, of another object, or of the object that explains most."""
    result = results.need("geometry")
    options = choices(results)
    along = along or options["along"][0]
    colours = options.get("coloured by", [BY_PARITY])
    coloured_by = coloured_by or colours[0]
    colours = list(dict.fromkeys(colours + places.objects(result)))
    one_of("colour", coloured_by, colours)
    if coloured_by == places.CLEAREST:
        coloured_by = places.clearest(result)
    layers = [str(number) for number in result.arrays["layers"]]
    layer = layers[-1] if layer == "last" else layer
    one_of("layer", layer, layers)
    panel = _panel(results, AXES[along], layers.index(layer), coloured_by, EYES[view])
    return Chart("geometry", f"States at layer {layer}, {along}", (panel,))


def _panel(
    results: RunResults, key: str, at: int, coloured_by: str, eye: tuple[float, float, float]
) -> Panel:
    """The states at `layers[at]`."""
    result = results.need("geometry")
    layer = int(result.arrays["layers"][at])
    means = _spatial(result.arrays[f"{key}_means"][at])
    points = _spatial(result.arrays[f"{key}_points"][at])[:POINTS]
    states = result.arrays["point_states"][:POINTS]
    saved = np.isfinite(points).all(1)
    points, states = points[saved], states[saved]
    names = ("orthogonal 1", "orthogonal 2", "parity")
    if key == "decomposition":  # parity on the vertical axis, as in the paper
        means, points = means[:, [1, 2, 0]], points[:, [1, 2, 0]]
    else:
        share = result.summary.get("explained_variance") or []
        known = layer == result.summary.get("last_layer") and len(share) >= 3
        part = [f" ({share[i]:.0%})" if known else "" for i in range(3)]
        names = tuple(f"component {i + 1}{part[i]}" for i in range(3))  # type: ignore[assignment]
    parity = results.group.parity
    odd = np.zeros(len(means), dtype=bool) if parity is None else parity.astype(bool)
    marks: list[Any] = _planes(means, odd) if key == "decomposition" else []
    if coloured_by != BY_PARITY:
        marks += places.clouds(results, coloured_by, means, points, states, odd)
    else:
        if len(means) <= LABELLED and parity is not None:
            marks += _edges(results, means, odd)
        marks += _by_parity(results, means, points, states, odd)
    x, y, z = names
    title = f"layer {layer}" + ("" if coloured_by == BY_PARITY else f", by {coloured_by}")
    box = _box(means, points, marks)
    return Panel(x, y, tuple(marks), title, z, eye=eye, box=box, tall=1.6)


def _by_parity(
    results: RunResults, means: np.ndarray, points: np.ndarray, states: np.ndarray, odd: np.ndarray
) -> list[Cloud]:
    """Even and odd, in two colours."""
    label = results.group.labels
    marks = []
    for is_odd, name, colour, mark in (
        (False, "state" if results.group.parity is None else "even", "state", "circle"),
        (True, "odd", "parity", "diamond"),
    ):
        chosen = np.flatnonzero((odd == is_odd) & np.isfinite(means).all(1))
        if not len(chosen):
            continue
        single = np.flatnonzero(odd[states] == is_odd)
        texts = [label[int(states[i])] for i in single]
        spots = places.rows(points[single])
        marks.append(Cloud(f"{name} activations", spots, texts, colour, mark, 2.5))
        texts, strong = [label[int(i)] for i in chosen], len(means) <= LABELLED
        marks.append(Cloud(name, places.rows(means[chosen]), texts, colour, mark, 6.0, strong))
    return marks


def _box(
    means: np.ndarray, points: np.ndarray, marks: list[Any]
) -> tuple[tuple[float, float], ...] | None:
    """A box around all means and planes and most points, so that outliers do not shrink the rest;
    None if nothing is finite."""
    inner = points[np.isfinite(points).all(1)]
    corners = [corner for mark in marks if isinstance(mark, Plane) for corner in mark.corners]
    inside = [means[np.isfinite(means).all(1)], np.array(corners, dtype=float).reshape(-1, 3)]
    if len(inner):
        inside.append(np.quantile(inner, [STRAY, 1 - STRAY], axis=0))
    everything = np.concatenate(inside)
    if not len(everything):
        return None
    low, high = everything.min(0), everything.max(0)
    margin = 0.06 * (high - low).max() or 1.0
    return tuple((float(a - margin), float(b + margin)) for a, b in zip(low, high, strict=True))


def _spatial(values: np.ndarray) -> np.ndarray:
    """[n, 3], with 0 for missing components."""
    missing = max(0, 3 - values.shape[-1])
    return np.pad(np.asarray(values, dtype=float), ((0, 0), (0, missing)))[:, :3]


def _planes(means: np.ndarray, odd: np.ndarray) -> list[Plane]:
    """The even and the odd plane, each at the mean parity coordinate of its states."""
    if not np.isfinite(means).all():
        return []
    reach = 1.15 * np.abs(means[:, :2]).max()
    planes = []
    for is_odd, colour in ((False, "state"), (True, "parity")):
        if (odd == is_odd).any():
            height = float(means[odd == is_odd, 2].mean())
            turns = ((-1, -1), (1, -1), (1, 1), (-1, 1))
            corners = [[plain(a * reach), plain(b * reach), plain(height)] for a, b in turns]
            name = f"{'odd' if is_odd else 'even'} plane"
            planes.append(Plane(name, corners, colour))  # type: ignore[arg-type]
    return planes


def _edges(results: RunResults, means: np.ndarray, odd: np.ndarray) -> list[Path3]:
    """The prism: the pairs of opposite parity that the lens reports, and the two faces."""
    prism = results.need("geometry").summary.get("prism")
    number = {name: i for i, name in enumerate(results.group.labels)}
    marks = []
    if prism and prism.get("pairs"):
        pairs = [(number[a], number[b]) for a, b in prism["pairs"] if a in number and b in number]
        ends = [tuple(places.rows(means[[a, b]])) for a, b in pairs]
        marks.append(Path3("pairs", ends, "ink"))  # type: ignore[arg-type]
    if len(means) <= 6:
        every = combinations(range(len(means)), 2)
        sides = [tuple(places.rows(means[[a, b]])) for a, b in every if odd[a] == odd[b]]
        marks.append(Path3("same parity", sides, "grey", "dash"))  # type: ignore[arg-type]
    return marks


def measures(results: RunResults) -> Chart:
    """The geometry measures at every layer."""
    result = results.need("geometry")

    def series(measure: str, name: str, key: str = "value") -> tuple[list[int], list[float | None]]:
        rows = sorted(result.rows(measure=measure, name=name), key=lambda row: row["layer"])
        return [row["layer"] for row in rows], numbers(row[key] for row in rows)

    shape: list[Line] = []
    x, y = series("between_share", "state")
    shape.append(Line("variance between states", x, y, "ink", mark="diamond"))
    x, y = series("prism", "score")
    if x:
        shape.append(Line("prism score", x, y, "third", mark="triangle-up"))
        null = series("prism", "score", "null")[1]
        shape.append(Line("prism score, permuted", x, null, "grey", "dash", mark=None))
    panels = [share_panel("layer", "share or score", shape, "shape", whole="x")]
    colours = iter(TURNS * 99)
    irreps = dict.fromkeys(row["name"] for row in result.rows(measure="irrep_share"))
    lines = []
    for number, name in enumerate(irreps):
        x, y = series("irrep_share", name)
        colour, mark = ("parity", "square") if name == "sign" else (next(colours), "circle")
        dash = "solid" if number <= len(TURNS) else "dash"  # colours repeat
        lines.append(Line(name, x, y, colour, dash, mark))
    if lines:
        title = "irreducible representations"
        panels.append(share_panel("layer", "share of variance", lines, title, whole="x"))
    if not result.columns["name"]:
        raise StatetraceError("the geometry table is empty")
    objects = places.objects(result)
    if objects:
        panels.append(places.shares(objects, series))
    return Chart("geometry-measures", "Geometry measures by layer", tuple(panels))


def prism_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The prism at its clearest layer."""
    prism = results.need("geometry").summary.get("prism")
    if not prism:
        return [], []
    table: list[list[Any]] = [["layer", prism["layer"]], ["score", prism["score"]]]
    table += [["score of permuted states", prism["null"]], ["p", prism["p"]]]
    for name in ("parity", "pairing", "right_angle", "regularity", "additive"):
        if name in prism:
            table.append([name.replace("_", " "), prism[name]])
    if prism.get("pairs"):
        table.append(["pairs", ", ".join("+".join(pair) for pair in prism["pairs"])])
        angles = ", ".join(f"{a:.0f}°" for a in prism["line_angles"])
        table.append(["angles between clusters", angles])
    return ["measure", "value"], table
