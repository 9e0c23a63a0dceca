"""Pictures of how far models are right: beyond what they were trained on, midway in training, and
by mechanism (Figures 5 and 6)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from reproduction.claims.names import BOTH, S5_STUDIES, SCRATCH
from reproduction.figures.models import OF_S5, by_length, of_both
from reproduction.measured import Measure, resampled
from reproduction.measures.studies import AA, PAA, ahead, judged, so_far
from reproduction.model_selection import need_converged
from reproduction.results import Missing, Results, Row, lens_file
from statetrace.reports.figures.chart import Chart, Dots, Line, Panel, ReferenceLine
from statetrace.reports.figures.study_shares import order, style

BEYOND = 1.25
"""Training lengths at which rows ask how many states are still right."""


def beyond(found: Results) -> Chart:
    """Section 4.4: models that were trained to the end, up to their training length and beyond."""
    title = "Accuracy by length, of models that know their training length (§4.4), 95% intervals"
    return of_both(found, "beyond", title, _beyond)


def _beyond(found: Results, called: str, model: str) -> list[Panel]:
    need_converged(found, model)
    trained = found.json(lens_file(model, "generalization", "json"))["summary"]["training_length"]
    [panel] = by_length(found, called, model, ends=False)
    rules = (
        ReferenceLine("x", trained, f"trained on {trained}", beside=("left", 0.02)),
        ReferenceLine("x", round(BEYOND * trained), f"{BEYOND} times", beside=("right", 0.9)),
    )
    told = f", {model.replace('/', ':')}" if model.startswith("zoo/") else ""
    return [
        Panel("length", "accuracy", (*rules, *panel.marks), f"{called}{told}", y_range=(0, 1.03),
              whole="x")
    ]  # fmt: skip


def generalization_s5(found: Results) -> Chart:
    """Figure 5's models of S5."""
    title = "S5, accuracy by length, cutoffs at 98% (Figure 5)"
    return of_both(found, "generalization-s5", title, by_length, OF_S5)


def midway(found: Results) -> Chart:
    """Figure 6, many models: state against parity cutoff at the early look."""
    every = (
        ("small models", judged(found, BOTH, "verdict")),
        ("the paper's size", judged(found, (SCRATCH,), "verdict")),
        ("S5", judged(found, S5_STUDIES, "verdict", group="S5")),
    )
    panels = [
        _midway([row for row in rows if row["early_cutoff"] is not None], called)
        for called, rows in every
        if any(row["early_cutoff"] is not None for row in rows)
    ]
    if not panels:
        raise Missing("no model of the studies was looked at midway")
    title = "Cutoffs midway in training, by final verdict (Figure 6); ×n: n models"
    return Chart("midway", title, tuple(panels))


def _midway(rows: list[Row], called: str) -> Panel:
    """A mark for each model, of the verdict at its end, with how many lie there; where one was read
    otherwise midway, a wider one lies behind it."""
    reach = [row | {"early_parity_cutoff": row["early_parity_cutoff"] or row["longest"] + 1}
             for row in rows]  # fmt: skip
    length = max(row["length"] for row in rows)
    most = max(length, *(row["early_parity_cutoff"] for row in reach)) * 1.07
    marks: list[Any] = [Line("equal", [0.0, most], [0.0, most], "faint", "dash", mark=None)]
    if len({row["length"] for row in rows}) == 1:
        marks.append(Line("training length", [0.0, most], [length, length], "faint", mark=None))
    others = [row for row in reach if row["early_verdict"] != row["verdict"]]
    if others:
        x, y = _ends(others)
        marks.append(Dots("read otherwise midway", x, y, (), "faint", "diamond", 16))
    for mechanism in sorted({row["verdict"] for row in reach}, key=order, reverse=True):
        mine = [row for row in reach if row["verdict"] == mechanism]
        counts = Counter(zip(*_ends(mine), strict=True))
        texts = [f"×{count}" if count > 1 else "" for count in counts.values()]
        x, y = map(list, zip(*counts, strict=True))
        colour, mark = style(mechanism)
        size = 5 if mechanism == AA else 8  # may lie on others
        marks.append(Dots(mechanism, x, y, texts, colour, mark, size, labelled=True))
    steps = sorted({row["early_step"] for row in rows})
    title = f"{called} ({len(rows)}), step {' / '.join(f'{step:,}' for step in steps)}"
    return Panel("state cutoff", "parity cutoff", tuple(marks), title, x_range=(0, most),
                 y_range=(0, most), whole="xy", tall=1.1)  # fmt: skip


def _ends(rows: list[Row]) -> tuple[list[float], list[float]]:
    x, y = ([float(row[key]) for row in rows] for key in ("early_cutoff", "early_parity_cutoff"))
    return x, y


COMPARED: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("the paper's size", SCRATCH, {"model": "gpt2"}),
    ("very small Pythias of one start", "tiny-split", {}),
)
"""Studies in which the mechanisms are compared, as in the rows: the first with enough of both."""


def further(found: Results) -> Chart:
    """Figures 5 and 6: how far, and how often, AA and PAA models are right after equal steps."""
    for called, study, where in COMPARED:
        measured: Measure = ahead("cutoff", study, **where)
        if found.present((study,)) and measured(found).value is not None:
            rows = judged(found, (study,), "verdict", **where)
            title = f"AA and PAA after equal steps: {called} {so_far(rows)}".rstrip()
            panels = (
                compared(rows, "cutoff", "state cutoff (length)"),
                compared(rows, "accuracy", "states right (share)"),
            )
            return Chart("further", f"{title} (Figures 5 and 6)", panels)
    raise Missing("no study has enough models of both mechanisms")


def compared(rows: list[Row], column: str, label: str) -> Panel:
    """A mark for each model, and the mean of each mechanism with its interval, resampled."""
    marks: list[Any] = []
    ticks = []
    for at, (mechanism, called) in enumerate(((AA, "AA"), (PAA, "PAA"))):
        mine = [row for row in rows if row["verdict"] == mechanism]
        values = [float(row["longest"] + 1 if row[column] is None else row[column]) for row in mine]
        means = resampled(values, np.random.default_rng(0))
        low, high = np.percentile(means, [2.5, 97.5])
        colour, mark = style(mechanism)
        mean = float(np.mean(values))
        marks.append(Line("95% interval of the mean", [at + 0.2] * 2, [float(low), float(high)],
                          "grey", mark=None))  # fmt: skip
        marks.append(Dots("mean", [at + 0.2], [mean], (), "ink", "diamond", 8))
        texts = [row["cell"] for row in mine]
        marks.append(Dots(mechanism, [float(at)] * len(mine), values, texts, colour, mark, 7))
        ticks.append((float(at), f"{called} (n = {len(mine)})"))
    return Panel("", label, tuple(marks), x_range=(-0.5, 1.7), ticks=tuple(ticks))
