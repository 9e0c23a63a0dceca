"""Accuracy by length with cutoffs (Figure 5)."""

from __future__ import annotations

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

ROOM = 0.36
"""Share of the axis that the label of a cutoff takes on a phone. Labels are stacked near the
bottom, where curves are rare: to the left of all cutoffs if they fit there, because curves fall to
the right."""


def generalization(results: RunResults) -> Chart:
    result = results.need("generalization")
    summary, rows = result.summary, result.rows()
    marks: list[Any] = []
    trained, longest = int(summary["training_length"]), int(summary["longest"])
    if longest > trained:
        marks.append(Band(trained + 0.5, longest + 0.5, "beyond the training length"))
    marks.append(ReferenceLine("y", float(summary["threshold"]), "", dash="dot"))
    ends = []
    for what, (colour, mark) in target_styles(row["what"] for row in rows).items():
        series = [row for row in rows if row["what"] == what]
        marks.append(
            Line(
                what,
                [row["length"] for row in series],
                numbers(row["accuracy"] for row in series),
                colour,
                mark=mark,
                low=numbers(row["low"] for row in series),
                high=numbers(row["high"] for row in series),
            )
        )
        end = summary["cutoff"][what]["first_below"]
        if end is not None:
            ends.append((int(end), what, colour))
    places = sorted({end for end, _, _ in ends})
    for i, end in enumerate(places):
        targets = {what: colour for at, what, colour in ends if at == end}
        label = f"{' and '.join(targets)} cutoff {end}"
        left = places[0] > ROOM * longest
        beside = Beside("left" if left else "right", 0.02 + 0.08 * i, places[0 if left else -1])
        marks.append(ReferenceLine("x", end, label, next(iter(targets.values())), "dot", beside))
    panel = length_panel(marks, "", longest)
    return Chart("generalization", "Accuracy by length", (panel,))


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
