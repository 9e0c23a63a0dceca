"""Pictures of many models: shares of mechanisms (Figures 7, 17 and 18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduction.lens_model import NAMES
from reproduction.model_selection import Selection
from reproduction.statistics import wilson
from reproduction.tables import Row
from statetrace.reports.figures.chart import Bars, Chart, Panel
from statetrace.reports.figures.study_shares import STYLES


def mechanism_bars(groups: Sequence[tuple[str, list[Row]]], title: str) -> Panel:
    """For each group of models, a bar per mechanism, with Wilson's intervals."""
    groups = [(name, rows) for name, rows in groups if rows]
    found = {row["verdict"] for _, rows in groups for row in rows}
    mechanisms = [name for name in STYLES if name in found]
    width = 0.8 / max(1, len(mechanisms))
    marks = []
    for number, mechanism in enumerate(mechanisms):
        counts = [sum(row["verdict"] == mechanism for row in rows) for _, rows in groups]
        sizes = [len(rows) for _, rows in groups]
        x = [i + width * (number - (len(mechanisms) - 1) / 2) for i in range(len(groups))]
        ends = [wilson(count, n) for count, n in zip(counts, sizes, strict=True)]
        shares = [count / n for count, n in zip(counts, sizes, strict=True)]
        texts = [f"{count} of {n}" for count, n in zip(counts, sizes, strict=True)]
        low, high = ([end[i] for end in ends] for i in (0, 1))
        marks.append(Bars(mechanism, x, shares, low, high, texts, STYLES[mechanism][0], width))
    ticks = tuple((float(i), f"{name}\nn = {len(rows)}") for i, (name, rows) in enumerate(groups))
    return Panel("", "share of models", tuple(marks), title, x_range=(-0.6, len(groups) - 0.4),
                 y_range=(0, 1.02), ticks=ticks, bare=True)  # fmt: skip


def _families(selection: Selection, **where: Any) -> list[tuple[str, list[Row]]]:
    rows = selection.rows({"group": "S3", "form": "tokens"} | where)
    models = sorted({row["model"] for row in rows if row["model"] != "mamba"})
    return [(NAMES[name], [row for row in rows if row["model"] == name]) for name in models]


def figures_7_17(selection: Selection) -> Chart:
    small = []
    for name, rows in _families(selection, study=["small"]):
        for width in sorted({int(row["width"]) for row in rows}):
            group = [row for row in rows if int(row["width"]) == width]
            small.append((f"{name}\n{width}", group))
    panels = (
        mechanism_bars(_families(selection, size="paper", regime="scratch"), "the paper's size"),
        mechanism_bars(small, "small models, by width"),
    )
    return Chart("figures-7-17", "Mechanisms of models trained from scratch", panels)


def figure_18(selection: Selection) -> Chart:
    regimes = ("scratch", "control", "topic-1", "topic-2", "parity")
    panels = []
    for title, where in (
        ("the paper's size", {"size": "paper"}),
        ("GPT-2, width 256", {"study": ["small", "small-regimes"], "model": "gpt2", "width": 256}),
        ("GPT-2, width 32", {"study": ["tiny", "tiny-control", "tiny-regimes"], "model": "gpt2",
                             "width": 32}),
        ("Pythia, width 16, one start", {"study": ["tiny-split", "tiny-split-regimes"]}),
    ):  # fmt: skip
        rows = selection.rows({"group": "S3", "form": "tokens"} | where)
        groups = []
        for regime in regimes:
            mine = [row for row in rows if row["regime"] == regime]
            for model in sorted({row["model"] for row in mine}):
                family = NAMES[model].removesuffix("-160M")
                name = f"{family}\n{regime}" if "size" in where else regime
                groups.append((name, [row for row in mine if row["model"] == model]))
        panels.append(mechanism_bars(groups, title))
    return Chart("figure-18", "Mechanisms after other training", tuple(panels))


def appendix_h(selection: Selection) -> Chart:
    """Models that were taught parity, or read growing lengths, beside models from scratch."""
    panels = []
    for title, studies in (
        ("GPT-2, width 32", ["tiny", "tiny-regimes"]),
        ("GPT-2, width 256", ["small", "small-regimes"]),
        ("Pythia", ["tiny-pythia"]),
    ):
        rows = selection.rows({"group": "S3", "form": "tokens", "study": studies})
        taught = [row for row in rows if row["regime"].startswith(("parity", "aux", "length"))]
        widths = {row["width"] for row in taught}
        regimes = sorted({row["regime"] for row in taught})
        names = {row["model"] for row in taught}
        groups = [
            (regime.replace("auxiliary-", "classify\n"), [
                row for row in rows
                if row["regime"] == regime and row["width"] in widths and row["model"] in names
            ])
            for regime in ("scratch", *regimes)
        ]  # fmt: skip
        panels += [mechanism_bars(groups, title)] if taught else []
    return Chart("appendix-h", "Taught parity, or growing lengths", tuple(panels), columns=2)
