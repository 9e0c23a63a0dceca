"""Pictures of what is taught before, and of data orders (sections 4.2 and 5.3, appendix H)."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from reproduction.figures.studies import bars, lines
from reproduction.measures.regime_effects import SCRATCH, beside
from reproduction.measures.studies import EARLY, judged, sizes
from reproduction.results import Missing, Results, Row
from statetrace.reports.figures.chart import Chart, Dots, Heat, Panel, ReferenceLine
from statetrace.reports.figures.study_shares import order
from statetrace.studies.folder import FINISHED

RIGHT = 0.98
"""As for cutoffs."""


def topics(found: Results) -> Chart:
    """Appendix H: the printed tables, with what their rows come to."""
    data = json.loads(files("statetrace.tasks").joinpath("topic_tables.json").read_text())
    tokens = data.pop("tokens")
    panels = []
    for name, rows in data.items():
        y = list(range(1, len(rows) + 1))
        heat = Heat(list(range(len(tokens))), y, rows, "p(token | topic)")
        sums = [f"{sum(row):.4f}" for row in rows]
        beside = [len(tokens) + 0.1] * len(y)
        marks = (heat, Dots("", beside, y, sums, "paper", labelled=True, size=0.1))
        ticks = tuple((float(i), token) for i, token in enumerate(tokens))
        panels.append(
            Panel("token", "topic", marks, name.replace("paper-", "topic model "), down=True,
                  whole="y", ticks=ticks, x_range=(-0.5, len(tokens) + 0.7))
        )  # fmt: skip
    title = "The printed topic models: a row for each topic, and its sum (App. H)"
    return Chart("topics", title, tuple(panels))


def orders(found: Results) -> Chart:
    """Section 4.2: the same initial weights, other orders of the data."""
    rows = [
        row
        for row in judged(found, ("tiny-orders",), "verdict")
        if row.get("init_seed") is not None
    ]
    split = judged(found, ("tiny-split",), "verdict")
    if not rows:
        raise Missing("no models began with the same weights")
    widths = sorted({row["width"] for row in rows})
    panels = tuple(
        bars(
            [row | {"what": f"start {row['init_seed']}"} for row in rows if row["width"] == width],
            f"width {width}",
        )
        for width in widths
    )
    if split:
        start = split[0]["init_seed"]
        many = [row | {"what": f"start {start}"} for row in split]
        panels = (*panels, bars(many, f"width {split[0]['width']}, more orders"))
    title = "Mechanisms of very small Pythias: the same initial weights, other data orders (§4.2)"
    return Chart("orders", title, panels)


START = ("tiny-split", "tiny-split-regimes")
PUSHES = {
    ("small", "small-regimes"): "small",
    ("tiny", "tiny-regimes"): "very small",
    ("tiny", "tiny-pythia"): "very small",
    START: "very small, one start",
    ("tiny-control", "tiny-control"): "very small",
}
"""The study of models from scratch, that of others, and which models these are."""


def pushes(found: Results) -> Chart:
    """Section 5.3: after topic models, and after random documents, beside from scratch."""
    panels = _midway(found)
    for pair, called in PUSHES.items():
        rows = _beside(found, ("topic", "control"), pair)
        if rows:
            about = f"{called}: {rows[0]['model']}, width {rows[0]['width']}"
            panels.append(bars(rows, about))
    if not panels:
        raise Missing("no models were taught anything before")
    title = "Mechanisms after topic models and after random documents (§5.3, Figure 18)"
    return Chart("pushes", title, tuple(panels))


def _midway(found: Results) -> list[Panel]:
    """A panel of the paper's own reading, of small models that still learn."""
    rows = judged(found, ("small-regimes",), EARLY)
    rows = [row for row in rows if str(row["regime"]).startswith("topic")]
    told = [
        row | {"verdict": row[EARLY], "what": lines(row["regime"]), "state": FINISHED}
        for row in rows
    ]
    return [bars(told, f"small, by cutoffs midway: width {rows[0]['width']}")] if rows else []


def start(found: Results) -> Chart:
    """Section 5.3 and appendix H, where from scratch the order of the data decides."""
    rows = _beside(found, ("",), START)
    if not rows:
        raise Missing("no models of one start were taught something before")
    title = "One start, by what was taught before (§5.3, App. H)"
    return Chart("start", title, (bars(rows, sizes(rows)),))


def _beside(found: Results, regimes: tuple[str, ...], pair: tuple[str, str]) -> list[Row]:
    """Models after such stages, and those from scratch of the same family and width."""
    both = [beside(found, regime, pair) for regime in regimes]
    free = {row["cell"]: row | {"regime": SCRATCH} for plain, after in both for row in plain}
    taught = [row for _, after in both for row in after]
    if not taught or not free:
        return []
    return [
        row | {"what": lines(row["regime"]), "state": FINISHED} for row in [*free.values(), *taught]
    ]


def stages(found: Results) -> Chart:
    """Figure 19: what each model knew at the end of the stage before the last, at that stage's
    length and at the next one's."""
    study = "tiny-pythia"
    ends = {row["cell"]: row for row in found.table(f"results/{study}/stages.csv")}
    models = [row for row in judged(found, (study,), "verdict") if row["cell"] in ends]
    if not models:
        raise Missing("no model whose sequences became longer has a verdict")
    models.sort(key=lambda row: (order(row["verdict"]), row["cell"]))
    length, after = (
        " / ".join(map(str, sorted({ends[row["cell"]][key] for row in models})))
        for key in ("length", "next")
    )
    panels = []
    for title, prefix in (
        (f"length {length}, just taught", ""),
        (f"length {after}, next", "next_"),
    ):
        marks: list[Any] = [ReferenceLine("y", RIGHT, "98%")]
        for what, mark, wide in (("state", "circle", 10.0), ("parity", "square", 5.0)):
            y = [ends[row["cell"]][f"{prefix}{what}"] for row in models]
            texts = [row["cell"] for row in models]
            marks.append(Dots(what, list(range(len(models))), y, texts, what, mark, wide))
        short = {"associative": "AA", "parity-associative": "PAA"}
        ticks = tuple(
            (float(i), f"seed {row['seed']}\n{short.get(row['verdict'], row['verdict'])}")
            for i, row in enumerate(models)
        )
        panels.append(
            Panel("model, and what it became", "share right", tuple(marks), title, ticks=ticks,
                  x_range=(-0.5, len(models) - 0.5), y_range=(0, 1.05))
        )  # fmt: skip
    title = f"Growing lengths: very small Pythias after length {length} (Figure 19)"
    return Chart("stages", title, tuple(panels))
