"""Pictures of numbers that the paper has in tables: deviations of probes (Table 1) and scores of
parity heads (Table 2)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from typing import Any

import numpy as np

from reproduction.figures.models import NAMES, of_both
from reproduction.measured import of_deviation
from reproduction.measures.deviations import FACTOR, TABLE_1, cells, widest
from reproduction.measures.probing import curve
from reproduction.model_selection import S5_A, S5_P, A, P, first, short
from reproduction.results import Missing, Results, lens_file
from statetrace.reports.figures.chart import Bars, Chart, Dots, Line, Panel, ReferenceLine, numbers

STYLES = {
    (P, "state"): ("state", "circle"), (P, "parity"): ("parity", "square"),
    (A, "state"): ("third", "diamond"), (A, "parity"): ("sixth", "triangle-up"),
}  # fmt: skip
LOWEST = -6.5
"""Power of ten at which the axes begin."""
LEAST = 0.001
"""What the paper's deviations are below."""
PAPER = {
    P: (90.1, 86.4, 67.1), A: (3.3, 3.0, 2.0), S5_P: (83.6, 80.6, 50.3), S5_A: (5.9, 3.8, 3.2),
}  # fmt: skip
"""Table 2: scores (percent) of the best three heads, as in the rows."""
CALLED = {P: "S3, PAA", A: "S3, AA", S5_P: "S5, PAA", S5_A: "S5, AA"}
WELL = 50.0
"""Percent: what a parity head scores above."""


def table_1(found: Results) -> Chart:
    """Deviation of probes over training subsets, layer by layer, and beside the paper's."""
    title = "Deviation of a probe's accuracy over training subsets (Table 1), 95% intervals"
    chart = of_both(found, "table-1", title, _deviations)
    with contextlib.suppress(Missing):
        return dataclasses.replace(chart, panels=(*chart.panels, _cells(found)))
    return chart


def _cells(found: Results) -> Panel:
    """All cells of the table, ours against the paper's, in powers of ten; at the lower edge those
    that do not deviate at all."""
    marks: list[Any] = []
    for (model, target), (_, ours) in cells(found).items():
        x = numbers(np.log10(TABLE_1[model, target]))
        y = numbers(np.log10(np.maximum(ours, 10**LOWEST)))
        texts = [f"layer {layer}" for layer in range(len(ours))]
        colour, mark = STYLES[model, target]
        marks.append(Dots(f"{NAMES[model]}, {target}", x, y, texts, colour, mark, 6))
    ends = [LOWEST, -1.5]
    marks.append(Line("the same", ends, ends, "grey", "dash", mark=None))
    near = [end + math.log10(FACTOR) for end in ends]
    marks.append(Line(f"{FACTOR:g} times as much", ends, near, "faint", mark=None))
    return Panel(
        "the paper's (power of ten)", "ours (power of ten)", tuple(marks), "all cells",
        x_range=(LOWEST, -3), y_range=(LOWEST - 0.2, -1.5), tall=1.2,
    )  # fmt: skip


def _deviations(found: Results, called: str, model: str) -> list[Panel]:
    """With the larger subsets of MODEL-wide where there are any, as the rows have it."""
    name = widest(found, model)
    about = found.json(lens_file(name, "probing", "json"))["summary"]
    n = int(about["subsets"])
    marks: list[Any] = [ReferenceLine("y", LEAST, f"paper: below {LEAST}")]
    for target, mark in (("state", "circle"), ("parity", "square")):
        values, _ = curve(found, name, target, column="std")
        low, high = zip(*(of_deviation(value, n) for value in values), strict=True)
        layers = list(range(len(values)))
        marks.append(
            Line(target, layers, numbers(values), target, mark=mark, low=numbers(low),
                 high=numbers(high))
        )  # fmt: skip
    said, tried = f"{n} subsets of {about['train'] // n:,}", f"deviation, on {about['test']:,}"
    return [Panel("layer", tried, tuple(marks), f"{called}, {said}", whole="x")]


def table_2(found: Results) -> Chart:
    """The best three heads of a model of each kind: ours, the paper's, and chance."""
    panels = []
    for model in CALLED:
        with contextlib.suppress(Missing):
            panels.append(first(found, model, functools.partial(_best, found, model))[1])
    if not panels:
        raise Missing("no model has scores of parity heads")
    title = "Parity-head scores of the best three heads (Table 2), 95% intervals"
    return Chart("table-2", title, tuple(panels))


def _best(found: Results, model: str, name: str) -> Panel:
    heads, about = _heads(found, name)
    best = heads[: len(PAPER[model])]
    if len(best) < len(PAPER[model]):
        raise Missing(f"of '{name}' there are {len(best)} heads, not {len(PAPER[model])}")
    x = [float(rank) for rank, _ in enumerate(best, start=1)]
    y, low, high = ([head[key] for head in best] for key in ("mean", "low", "high"))
    texts = [f"layer {head['layer']}, head {head['head']}" for head in best]
    ends = (0.5, len(best) + 0.5)
    marks = (
        Bars("ours", x, y, low, high, texts, "sixth", 0.6),
        Dots("the paper's", x, PAPER[model], (), "parity", "diamond", 7),
        _by_chance(about, ends),
    )
    which = short(found, name)
    title = f"{CALLED[model]}{f': {which}' if which else ''} ({len(heads)} heads)"
    named = zip(x, ("best", "second", "third"), texts, strict=True)
    ticks = tuple((at, f"{rank}\n{text}") for at, rank, text in named)
    y_label = f"score (%), n = {best[0]['n']} sequences"
    return Panel("", y_label, marks, title, x_range=ends, y_range=(0, 105), ticks=ticks, bare=True)


def _by_chance(about: dict[str, Any], ends: tuple[float, float]) -> Line:
    level = [about["top_score_by_chance"]] * 2
    return Line("best of all heads by chance", ends, level, "ink", "dash", mark=None)


def _heads(found: Results, model: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All heads, the best first, and what is known of all together."""
    rows = [r for r in found.table(lens_file(model, "attention")) if r["measure"] == "head score"]
    about = found.json(lens_file(model, "attention", "json"))["summary"]
    if not rows or "top_score_by_chance" not in about:
        raise Missing(f"of '{model}' there are no scores of parity heads")
    return sorted(rows, key=lambda row: -row["mean"]), about


def heads(found: Results) -> Chart:
    """All heads of the two models of S3, by layer."""
    title = "Parity-head scores of all heads, by layer (Table 2, App. F), 95% intervals"
    return of_both(found, "heads", title, _by_layer, dict(reversed(NAMES.items())))


def _by_layer(found: Results, called: str, model: str) -> list[Panel]:
    """Heads of a layer stand side by side; above the bound those whose whole interval is."""
    rows, about = _heads(found, model)
    last = max(row["layer"] for row in rows)
    each = max(row["head"] for row in rows) + 1
    marks: list[Any] = [
        _by_chance(about, (0.5, last + 0.5)),
        Line(f"{WELL:.0f}%", (0.5, last + 0.5), [WELL] * 2, "faint", mark=None),
        ReferenceLine("x", last / 3 + 0.5, "a third", beside=("right", 0.9)),
    ]
    for name, above, colour, mark in (
        ("a head", False, "grey", "circle"), ("a head above 50%", True, "parity", "diamond"),
    ):  # fmt: skip
        mine = [row for row in rows if (row["low"] > WELL) == above]
        x = [row["layer"] + 0.7 * ((row["head"] + 0.5) / each - 0.5) for row in mine]
        for row, at in zip(mine, x, strict=True):
            marks.append(Line("", [at, at], [row["low"], row["high"]], "faint", mark=None))
        texts = [f"layer {row['layer']}, head {row['head']}" for row in mine]
        y = numbers(row["mean"] for row in mine)
        marks += [Dots(name, x, y, texts, colour, mark, 4)] if mine else []
    title = f"{called}, {len(rows)} heads, n = {rows[0]['n']} sequences"
    return [Panel("layer", "score (%)", tuple(marks), title, y_range=(0, 105), whole="x")]
