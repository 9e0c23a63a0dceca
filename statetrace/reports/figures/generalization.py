"""Accuracy by length with cutoffs (Figure 5)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from statetrace.mechanisms.mastery import cutoffs
from statetrace.reports.figures.after_stages import length_panel
from statetrace.reports.figures.chart import (
    Band,
    Beside,
    Chart,
    Line,
    ReferenceLine,
    numbers,
    target_styles,
)
from statetrace.reports.run_results import RunResults

LABEL_HEIGHT = 0.02
"""Height of the label of the cutoffs, one line near the bottom, where curves are rare."""


def generalization(results: RunResults) -> Chart:
    result = results.need("generalization")
    summary, rows = result.summary, result.rows()
    marks: list[Any] = []
    trained, longest = int(summary["training_length"]), int(summary["longest"])
    if longest > trained:
        marks.append(Band(trained + 0.5, longest + 0.5, "beyond the training length"))
    marks.append(ReferenceLine("y", float(summary["threshold"]), "", dash="dot"))
    ends: dict[int, dict[str, str]] = {}  # cutoff -> target -> colour
    for what, (colour, mark) in target_styles(row["what"] for row in rows).items():
        series = [row for row in rows if row["what"] == what]
        share, low, high = (numbers(r[key] for r in series) for key in ("accuracy", "low", "high"))
        lengths = [row["length"] for row in series]
        marks.append(Line(what, lengths, share, colour, mark=mark, low=low, high=high))
        end = summary["cutoff"][what]["first_below"]
        if end is not None:
            ends.setdefault(int(end), {})[what] = colour
    for i, (end, targets) in enumerate(sorted(ends.items())):
        label, beside = _label(ends, longest) if i == 0 else ("", None)
        marks.append(ReferenceLine("x", end, label, next(iter(targets.values())), "dot", beside))
    panel = length_panel(marks, "", longest)
    return Chart("generalization", "Accuracy by length", (panel,))


def _label(ends: dict[int, dict[str, str]], longest: int) -> tuple[str, Beside]:
    """The label of all cutoffs, in the widest gap between them and the ends of the axis."""
    places = sorted(ends)
    names = [" and ".join(ends[end]) for end in places]
    label = f"{names[0]} cutoff {places[0]}"
    if len(places) > 1:
        parts = (f"{name} {end}" for name, end in zip(names, places, strict=True))
        label = f"cutoffs: {', '.join(parts)}"
    gaps = [(places[0], Beside("left", LABEL_HEIGHT, places[0]))]
    for end, next_end in pairwise([*places, longest]):
        gaps.append((next_end - end, Beside("right", LABEL_HEIGHT, end)))
    return label, max(gaps, key=lambda gap: gap[0])[1]


def cutoff_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The cutoffs with their intervals."""
    general = results.need("generalization")
    summary, ends = general.summary, cutoffs(general)
    accuracy = f"mean accuracy, lengths 1 to {summary['training_length']}"
    table: list[list[Any]] = []
    for what, cutoff in summary["cutoff"].items():
        beyond = f"beyond {summary['longest']}"
        low = cutoff["low"] if cutoff["low"] <= summary["longest"] else beyond
        high = beyond if cutoff["high"] is None else cutoff["high"]
        interval = f"{low} to {high}" if low != high else str(low)
        table.append([what, f"{summary['accuracy'][what]:.1%}", ends[what], interval])
    return ["", accuracy, "cutoff", "95% interval"], table
