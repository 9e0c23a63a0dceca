"""Pictures of the best models that the paper has in its appendices (Figures 8C, 8D, 9 to 12 and
16)."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from reproduction.figures.models import (
    SPLITS,
    counted,
    layers_by_position,
    maps,
    of_both,
    titled,
)
from reproduction.measures.geometry import read_as
from reproduction.measures.probing import (
    GUESSED,
    LINEAR,
    called,
    last_parities,
    last_parity,
)
from reproduction.model_selection import PAA_ZOO, A, first, group_of, looked_at, zoo
from reproduction.results import Missing, Results, lens_file
from statetrace.groups import group
from statetrace.reports.figures.attention import tree_panel
from statetrace.reports.figures.chart import Chart, Cloud, Dots, Heat, Panel, ReferenceLine, numbers
from statetrace.reports.figures.depth import by_split


def patching_zoo(found: Results) -> Chart:
    """Figure 8A and 8B for the PAA models of the zoo that are not the one of its name."""
    panels = []
    for name in map(zoo, PAA_ZOO[1:]):
        with contextlib.suppress(Missing):
            panels += maps(found, name.replace("zoo/s3-", ""), name)
    if not panels:
        raise Missing("no other PAA model of the zoo was patched")
    return Chart("patching-zoo", "Prefixes restored, other small PAA models (Figure 8)",
                 tuple(panels))  # fmt: skip


def depth(found: Results) -> Chart:
    """Layers that answers need, by length: how far the last token can be set back."""
    title = "Layers that an answer needs, by length (App. B)"
    return of_both(found, "depth", title, _depth)


def _depth(found: Results, called: str, model: str) -> list[Panel]:
    """As far as other lenses looked, as the row has it."""
    most = looked_at(found, model) or np.inf
    rows = [
        row
        for row in found.table(lens_file(model, "depth"))
        if row["length"] <= most and row["mean"] is not None
    ]
    lengths = sorted({row["length"] for row in rows})
    if len(lengths) < 2:
        raise Missing(f"of '{model}' there are too few lengths")
    needed = {
        split: [
            sum(row["mean"] for row in rows if (row["split"], row["length"]) == (split, length))
            for length in lengths
        ]
        for split in SPLITS
    }
    pairs = sum(row["n"] for row in rows if row["layer"] == 0 and row["split"] == "all")
    return [dataclasses.replace(by_split(lengths, needed), title=f"{called} ({pairs:,} pairs)")]


def deletions(found: Results) -> Chart:
    """Figures 8C and 8D: what is lost with the last actions, and with single ones; medians, as the
    rows judge them."""
    title = "Suffixes and single actions deleted (Figure 8), medians"
    return of_both(found, "deletions", title, _deletions)


def _deletions(found: Results, called: str, model: str) -> list[Panel]:
    return [
        layers_by_position(
            *counted(found, model, where, "all", "median"), label, f"{called}, {what}"
        )
        for where, label, what in (
            ("suffix", "deleted from action on", "suffixes"),
            ("window", "deleted action", "single actions"),
        )
    ]


def deviations(found: Results) -> Chart:
    """Figure 9: how far single pairs are from the means of Figures 2, 8A and 8B."""
    title = "Deviation over pairs, prefixes restored (Figure 9)"
    return of_both(found, "deviations", title, _deviations)


def _deviations(found: Results, called: str, model: str) -> list[Panel]:
    return [
        layers_by_position(*counted(found, model, "prefix", split, "std"), "prefix up to action",
             f"{called}, {split}", "deviation", 0.5)
        for split in SPLITS
    ]  # fmt: skip


def probes_by_length(found: Results) -> Chart:
    """Figure 10: the probability that the probes give to the truth, by layer and length."""
    return of_both(found, "probes-by-length", "Probes by length (Figure 10)", _by_length)


def _by_length(found: Results, called: str, model: str) -> list[Panel]:
    most = looked_at(found, model) or np.inf
    rows = [
        row
        for row in found.table(lens_file(model, "probing"))
        if (row["position"], row["metric"]) == ("last", "probability") and row["length"] <= most
    ]
    lengths = sorted({row["length"] for row in rows})
    if len(lengths) < 2:
        raise Missing(f"of '{model}' there are no probes of several lengths")
    layers = sorted({row["layer"] for row in rows})
    panels = []
    for target in ("state", "parity"):
        at = {(row["layer"], row["length"]): row["mean"] for row in rows if row["target"] == target}
        cells = [[at.get((layer, length)) for length in lengths] for layer in layers]
        heat = Heat(lengths, layers, cells, "probability")
        panels.append(
            Panel("length", "layer", (heat,), f"{called}, {target}", down=True, whole="xy")
        )
    return panels


def last_layer(found: Results) -> Chart:
    """Figure 11: the last layer of an AA model in which parity is not linear there."""
    return _last_layer(found, "last-layer", linear=False)


def last_layer_linear(found: Results) -> Chart:
    """Figure 12: of one in which it is."""
    return _last_layer(found, "last-layer-linear", linear=True)


def _last_layer(found: Results, name: str, linear: bool) -> Chart:
    model, panel = first(found, A, lambda model: _components(found, model, linear))
    read = f"a probe reads parity in {last_parity(found, model):.0%}"
    title = f"Last layer of an AA model, {read} (Figure {12 if linear else 11})"
    return Chart(name, titled(title, found, {model: "AA"}), (panel,))


def _components(found: Results, model: str, linear: bool) -> Panel:
    """The states along the first three principal components."""
    read_as(found, model, linear)
    drawn = found.json(lens_file(model, "drawn", "json")).get("last")
    if drawn is None:
        raise Missing(f"of '{model}' no points of the last layer were kept")
    shares = found.json(lens_file(model, "geometry", "json"))["summary"]["explained_variance"]
    if len(shares) < 3:
        raise Missing(f"of '{model}' there are not three components")
    states = group(group_of(found, model))
    labels, parity = states.labels, states.parity
    if parity is None:
        raise Missing(f"'{model}' has no parity")
    marks: list[Any] = []
    for name, wanted, colour, mark in (
        ("even", 0, "state", "circle"), ("odd", 1, "parity", "diamond"),
    ):  # fmt: skip
        means = [
            (i, mean)
            for i, mean in enumerate(drawn["means"])
            if mean is not None and (parity[i] > 0) == wanted
        ]
        points = [
            (labels[state], point)
            for state, point in zip(drawn["states"], drawn["points"], strict=True)
            if (parity[state] > 0) == wanted
        ]
        marks.append(
            Cloud(f"{name} activations", [point for _, point in points],
                  [label for label, _ in points], colour, mark, 2.5)
        )  # fmt: skip
        marks.append(
            Cloud(name, [mean for _, mean in means], [labels[i] for i, _ in means],
                  colour, mark, 6, strong=True)
        )  # fmt: skip
    x, y, z = (f"component {n + 1} ({100 * share:.0f}%)" for n, share in enumerate(shares[:3]))
    reach = 1.6 * float(np.abs([mean for mean in drawn["means"] if mean is not None]).max())
    return Panel(x, y, tuple(marks), z=z, box=((-reach, reach),) * 3, tall=1.6)


def parity_last(found: Results) -> Chart:
    """Appendix C.3: how often a probe reads parity from the last layer of each AA model."""
    read = last_parities(found)
    x = list(range(len(read)))
    y = numbers(read.values())
    names = [f"{group_of(found, name)}\n{called(found, name)}" for name in read]
    marks = (
        ReferenceLine("y", LINEAR, "from here on linear"),
        ReferenceLine("y", GUESSED, "up to here guessed"),
        Dots("a probe of the last layer", x, y, names, "parity", "square", 9),
    )
    ticks = tuple(zip(map(float, x), names, strict=True))
    panel = Panel("AA model", "parity read (share)", marks, y_range=(0.4, 1.03), tall=1.2,
                  x_range=(-1.0, len(x) - 0.4), ticks=ticks)  # fmt: skip
    return Chart("last-parity", "Parity in the last layer of AA models (App. C.3)", (panel,))


def tree(found: Results) -> Chart:
    """Figure 16: the attention tree of one sequence in the AA model."""
    model, panel = first(found, A, lambda model: _tree(found, model))
    title = "The fullest of the AA model's attention trees that were kept (Figure 16)"
    return Chart("tree", titled(title, found, {model: "AA"}), (panel,))


def _tree(found: Results, model: str) -> Panel:
    drawn = found.json(lens_file(model, "drawn", "json")).get("tree")
    if drawn is None:
        raise Missing(f"of '{model}' no attention tree was kept")
    edges = np.array(drawn["edges"], dtype=int).reshape(-1, 3)
    labels = group(group_of(found, model)).labels
    names = [labels[action] for action in drawn["actions"]]
    return tree_panel(edges, drawn["weights"], names, drawn["layers"], drawn["above"])
