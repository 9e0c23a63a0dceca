"""Pictures of the shape of states over several models (appendix D)."""

from __future__ import annotations

from typing import Any

from statetrace.report.figures.chart import Bars, Chart, Dots, Line, Panel, Rule, numbers
from statetrace.reproduction.kept import PAA_ZOO, S5_P, P, first, large_ones, short, zoo
from statetrace.reproduction.pictures_of_models import titled
from statetrace.reproduction.results import Missing, Results, lens_file

MOST = 0.5
"""What the row of S5's clusters asks for; the bound is ours."""
OFF = 10.0
"""Degrees from 60 that the row of the spokes allows; the bound is ours."""


def prisms(found: Results) -> Chart:
    """How clear the prism of every PAA model is, which states it pairs, and its spokes."""
    names = [*map(zoo, PAA_ZOO), *large_ones(found, P, "geometry.json")]
    shapes = {}
    for name in names:
        file = lens_file(name, "geometry", "json")
        about = found.json(file)["summary"].get("prism") if found.exists(file) else None
        if about:
            shapes[name] = about
    if not shapes:
        raise Missing("no PAA model has a prism")
    x = list(range(len(shapes)))
    scores, chance = (numbers(one[key] for one in shapes.values()) for key in ("score", "null"))
    paired = ["\n".join("+".join(pair) for pair in one["pairs"]) for one in shapes.values()]
    called = [_called(found, name) for name in shapes]
    spokes = [(i, angle) for i, one in enumerate(shapes.values()) for angle in one["line_angles"]]
    clear: tuple[Any, ...] = (
        Bars("prism score (1: a perfect one)", x, scores, scores, scores, called, "state", 0.6),  # type: ignore[arg-type]
        Dots("mean of permuted states", x, chance, (), "parity", "diamond", 7),
    )
    angles: tuple[Any, ...] = (
        Rule("y", 60, "60°"),
        Rule("y", 60 - OFF, "", "faint"),
        Rule("y", 60 + OFF, "", "faint"),
        Dots("angles between spokes", [i for i, _ in spokes], numbers(a for _, a in spokes), (),
             "third", "circle", 6),
    )  # fmt: skip
    most = max(one["p"] for one in shapes.values())
    panels = (
        Panel("model, and which states are paired", "score", clear,
              f"against permuted states p ≤ {most:.1g}",
              x_range=(-0.6, len(x) - 0.4), y_range=(0, 1.03), bare=True, tall=1.3,
              ticks=tuple((float(i), f"{i + 1}\n{text}") for i, text in enumerate(paired))),
        Panel("model", "degrees", angles, "", x_range=(-0.6, len(x) - 0.4), y_range=(40, 80),
              ticks=tuple((float(i), str(i + 1)) for i in x)),
    )  # fmt: skip
    told = [f"{i}: {one}" for i, one in enumerate(called, start=1)]
    lines = ["Prisms of all PAA models of S3 (App. D)"]
    lines += ["; ".join(told[i : i + 3]) for i in range(0, len(told), 3)]
    return Chart("prisms", "\n".join(lines), panels)


def _called(found: Results, name: str) -> str:
    return short(found, name) or name.replace("zoo/", "zoo:")


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
        marks: list[Any] = [Rule("y", MOST, "most of it (ours)")]
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
