"""Pictures of how sparse attention is, of the loss models end at, and of the shape of S5's states
(Figures 6 and 13, section 4.5)."""

from __future__ import annotations

import numpy as np

from reproduction.figures.lengths import compared
from reproduction.figures.models import titled
from reproduction.measures.geometry import cluster_distances, from_the_middle, mirrored
from reproduction.measures.studies import judged
from reproduction.model_selection import S5_P, A, first, looked_at
from reproduction.results import Missing, Results, lens_file
from statetrace.reports.figures.chart import Chart, Dots, Line, Panel, ReferenceLine, numbers

APART, HELD, SHARED = 0.5, 0.9, 0.75
"""What the rows of S5's states ask for; the bounds are ours."""


def sparse(found: Results) -> Chart:
    """Tokens that attention is spread over, layer by layer."""
    name, panel = first(found, A, lambda name: _attended(found, name))
    title = "How many tokens attention is spread over (§4.5), 95% intervals"
    return Chart("sparse", titled(title, found, {name: "AA"}), (panel,))


def _attended(found: Results, model: str) -> Panel:
    about = found.json(lens_file(model, "attention", "json"))
    spread = about["summary"].get("attended")
    if spread is None:
        raise Missing(f"how sparse the attention of '{model}' is was not kept")
    means, errors = np.array(spread["mean"]), np.array(spread["error"])
    layers = list(range(1, len(means) + 1))
    line = Line("mean of heads and targets", layers, numbers(means), "state",
                low=numbers(means - errors), high=numbers(means + errors))  # fmt: skip
    half = ReferenceLine("x", len(means) // 2 + 0.5, "deeper half", beside=("right", 0.9))
    title = f"AA, n = {about['spec']['examples']} sequences of length {looked_at(found, model)}"
    top = 1.05 * float((means + errors).max())
    return Panel("layer", "tokens", (half, line), title, whole="x", y_range=(0, top))


def losses(found: Results) -> Chart:
    """The loss at which each model of a study ended."""
    study = "tiny-split"
    ends = {row["cell"]: row["loss"] for row in found.table(f"results/{study}/losses.csv")}
    rows = [
        row | {"loss": ends[row["cell"]]}
        for row in judged(found, (study,), "verdict")
        if row["cell"] in ends
    ]
    kinds = [row["verdict"] for row in rows]
    if min(kinds.count("associative"), kinds.count("parity-associative")) < 2:
        raise Missing("too few models of either mechanism")
    title = "The loss at which very small Pythias of one start end (Figure 6)"
    return Chart("losses", title, (compared(rows, "loss", "loss, held-out sequences"),))


def s5_shape(found: Results) -> Chart:
    """Clusters, components and mirror images of a PAA model of S5."""
    name, panels = first(found, S5_P, lambda name: _of_s5(found, name))
    title = "S5: how far clusters are apart, and what few directions hold (Figure 13)"
    return Chart("s5-shape", titled(title, found, {name: "PAA"}), panels)


def _of_s5(found: Results, model: str) -> tuple[Panel, ...]:
    rows = [row for row in found.table(lens_file(model, "geometry")) if row["value"] is not None]
    layer = max(row["layer"] for row in rows) - 1
    apart, held = (
        [row for row in rows if (row["measure"], row["layer"]) == (measure, layer)]
        for measure in ("cluster_distance", "explained_variance")
    )
    shared = mirrored(found).value
    if not apart or not held or shared is None:
        raise Missing(f"of '{model}' there are no clusters, components or pairs")
    apart = sorted(apart, key=lambda row: float(row["value"]))
    far = Dots("two clusters", list(range(1, len(apart) + 1)), numbers(r["value"] for r in apart),
               [row["name"] for row in apart], "state", "circle", 7)  # fmt: skip
    sums = np.cumsum([row["value"] for row in held[:3]])
    parts = Line("variance up to this one", [1, 2, 3][: len(sums)], numbers(sums), "third")
    _, middle = from_the_middle(cluster_distances(found, model)[1])
    off = Dots("a cluster", list(range(1, len(middle) + 1)), numbers(middle), (), "sixth", "circle",
               7)  # fmt: skip
    others = float(middle[1:].mean())
    share = Dots("shared", [1], [shared], (), "parity", "diamond", 9)
    return (
        Panel("pairs of clusters, the nearest first", "distance by the mean one",
              (ReferenceLine("y", APART, "ours"), far),
              f"clusters, layer {layer}", y_range=(0, 1.05 * float(apart[-1]["value"])), whole="x"),
        Panel("clusters, the nearest first", "distance from their middle",
              (ReferenceLine("y", APART * others, "ours"),
               ReferenceLine("y", others, "mean of the others", "faint"), off),
              f"clusters around the middle, layer {layer}", whole="x",
              y_range=(0, 1.2 * float(middle.max()))),
        Panel("principal components", "share of the variance",
              (ReferenceLine("y", HELD, "ours"), parts),
              f"n = {held[0]['n']} sequences, layer {layer}", y_range=(0, 1.03), whole="x"),
        Panel("", "share in common",
              (ReferenceLine("y", SHARED, "ours"), ReferenceLine("y", 0.5, "none", "faint"),
              share), "an even and an odd state", y_range=(0, 1.03), x_range=(0.5, 1.5),
              ticks=((1.0, "best pairing"),)),
    )  # fmt: skip
