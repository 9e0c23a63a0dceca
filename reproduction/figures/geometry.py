"""Pictures of the shape of states over several models (appendix D)."""

from __future__ import annotations

from typing import Any

from reproduction.figures.models import titled
from reproduction.measures.prisms import CLEAR, of_aa, of_paa
from reproduction.measures.probing import called
from reproduction.model_selection import PAA_ZOO, S5_P, first
from reproduction.results import Missing, Results, lens_file
from statetrace.reports.figures.chart import Bars, Chart, Dots, Line, Panel, ReferenceLine, numbers

OFF = 10.0
"""Degrees from 60 that the row of the spokes allows; the bound is ours."""


def prisms(found: Results) -> Chart:
    """How clear the prism of every PAA model is, which states it pairs, and its angles; AA models
    for contrast."""
    shapes, others = of_paa(found, PAA_ZOO), of_aa(found)
    if not shapes:
        raise Missing("no PAA model has a prism")
    every = [*shapes.values(), *others.values()]
    x = list(range(len(every)))
    names = [called(found, name) for name in (*shapes, *others)]
    paired = [one["by"].replace(" ", "\n") for one in every]
    scores = numbers(one["score"] for one in every)
    marks: list[Any] = [ReferenceLine("y", CLEAR, "ours")]
    for kind, here, colour in (
        ("PAA: prism score (1: a perfect one)", slice(len(shapes)), "state"),
        ("AA, the same", slice(len(shapes), None), "third"),
    ):
        if x[here]:
            tops: Any = scores[here]
            marks.append(Bars(kind, x[here], tops, tops, tops, names[here], colour, 0.6))
    chance = numbers(one["null"] for one in every)
    marks.append(Dots("mean of permuted states", x, chance, (), "parity", "diamond", 7))
    ends = (-1.2, len(x) - 0.4)
    most = max(one["p"] for one in shapes.values())
    panels = (
        Panel("model, and which states are paired (a state, then the swap)", "score", tuple(marks),
              f"PAA against permuted states p ≤ {most:.1g}",
              x_range=ends, y_range=(0, 1.03), bare=True, tall=1.3,
              ticks=tuple((float(i), f"{i + 1}\n{text}") for i, text in enumerate(paired))),
        Panel("model", "degrees", _angles(every), "angles between spokes", x_range=ends,
              y_range=(20, 150), ticks=tuple((float(i), str(i + 1)) for i in x)),
    )  # fmt: skip
    told = [f"{i}: {one}" for i, one in enumerate(names, start=1)]
    lines = ["Prisms of all PAA models of S3, and AA models for contrast (App. D)"]
    lines += ["; ".join(told[i : i + 3]) for i in range(0, len(told), 3)]
    return Chart("prisms", "\n".join(lines), panels)


def _angles(every: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Between spokes from the middle, and between the lines that they lie on."""
    marks: list[Any] = [ReferenceLine("y", 120, "120°", "faint"), ReferenceLine("y", 60, "60°")]
    marks += [ReferenceLine("y", 60 + off, "", "faint") for off in (-OFF, OFF)]
    for name, key, colour, mark in (
        ("spokes from the middle", "angles", "sixth", "diamond"),
        ("the same as undirected lines", "line_angles", "third", "circle"),
    ):
        points = [(i, angle) for i, one in enumerate(every) for angle in one[key]]
        y = numbers(angle for _, angle in points)
        marks.append(Dots(name, [i for i, _ in points], y, (), colour, mark, 6))
    return tuple(marks)


def clusters(found: Results) -> Chart:
    """Of what separates the states of a PAA model of S5, what goes with single objects."""
    name, panels = first(found, S5_P, lambda model: _shares(found, model))
    title = "S5: what separates the states, by single objects and places (Figure 13)"
    return Chart("s5-clusters", titled(title, found, {name: "PAA"}), tuple(panels))


def _shares(found: Results, model: str) -> list[Panel]:
    rows = [
        row
        for row in found.table(lens_file(model, "geometry"))
        if row["measure"] == "arrangement_share" and row["value"] is not None
    ]
    if not rows:
        raise Missing(f"of '{model}' there are no shares of arrangements")
    panels = []
    for kind, title in (("object", "where an object is"), ("position", "what is in a place")):
        marks: list[Any] = []
        named = sorted({row["name"] for row in rows if row["name"].startswith(kind)})
        colours = ("state", "parity", "third", "fourth", "fifth", "sixth")
        for one, colour in zip(named, colours, strict=False):
            mine = sorted((r for r in rows if r["name"] == one), key=lambda row: row["layer"])
            x, y = ([row[key] for row in mine] for key in ("layer", "value"))
            marks.append(Line(f"object or place{one.removeprefix(kind)}", x, numbers(y), colour))
        mine = sorted((r for r in rows if r["name"] == named[0]), key=lambda row: row["layer"])
        x, y = ([row[key] for row in mine] for key in ("layer", "null"))
        marks.append(Line("by chance", x, numbers(y), "grey", "dash", mark=None))
        title = f"{title} (n = {rows[0]['n']} states)"
        panels.append(
            Panel("layer", "share", tuple(marks), title, whole="x",
                  y_range=(0, 0.6))
        )  # fmt: skip
    return panels
