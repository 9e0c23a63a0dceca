"""Accuracy by length with cutoffs (Figure 5)."""

from __future__ import annotations

from typing import Any

from statetrace.reports.figures.chart import TURNS, Band, Chart, Line, Panel, ReferenceLine, numbers
from statetrace.reports.run_results import RunResults

NAME = "generalization"
TITLE = "Generalization to other lengths"
ABOUT = (
    "Accuracy after each number of actions, with 95% intervals. Shading: lengths beyond the "
    "training length. A cutoff (dotted) is the first length below 98%. Where parity stays "
    "accurate beyond the cutoff of the state, parity is computed separately."
)
ROOM = 0.36
"""Share of the axis that the label of a cutoff takes on a phone. It goes to the left of the cutoff
if it fits there, because curves fall to the right."""
MARKS = {"state": "circle", "parity": "square"}


def generalization(results: RunResults) -> Chart:
    result = results.need("generalization")
    summary, rows = result.summary, result.rows()
    marks: list[Any] = []
    trained, longest = int(summary["training_length"]), int(summary["longest"])
    if longest > trained:
        marks.append(Band(trained + 0.5, longest + 0.5, "beyond the training length"))
    marks.append(ReferenceLine("y", float(summary["threshold"]), "", dash="dot"))
    colours = iter(TURNS * 9)
    cutoffs = []
    for what in dict.fromkeys(row["what"] for row in rows):
        series = [row for row in rows if row["what"] == what]
        colour = what if what in MARKS else next(colours)
        marks.append(
            Line(
                what,
                [row["length"] for row in series],
                numbers(row["accuracy"] for row in series),
                colour,
                mark=MARKS.get(what, "diamond"),
                low=numbers(row["low"] for row in series),
                high=numbers(row["high"] for row in series),
            )
        )
        end = summary["cutoff"][what]["first_below"]
        if end is not None:
            cutoffs.append((int(end), what, colour))
    for i, end in enumerate(sorted({end for end, _, _ in cutoffs})):
        targets = {what: colour for at, what, colour in cutoffs if at == end}
        label = f"{' and '.join(targets)} cutoff {end}"
        side = "left" if end > ROOM * longest else "right"
        beside = (side, 0.02 + 0.08 * i)  # near the bottom, where curves are rare, and stacked
        marks.append(ReferenceLine("x", end, label, next(iter(targets.values())), "dot", beside))
    panel = Panel(
        "length",
        "accuracy",
        tuple(marks),
        x_range=(0.5, longest + 0.5),
        y_range=(0, 1.04),
        whole="x",
    )
    return Chart(NAME, "Accuracy by length", (panel,), ABOUT)


def cutoff_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The cutoffs with their intervals."""
    summary = results.need("generalization").summary
    head = ["", "accuracy up to the training length", "first below", "95% interval", "reach"]
    table: list[list[Any]] = []
    for what, cutoff in summary["cutoff"].items():
        beyond = f"beyond {summary['longest']}"
        low = cutoff["low"] if cutoff["low"] <= summary["longest"] else beyond
        high = beyond if cutoff["high"] is None else cutoff["high"]
        interval = str(low) if low == high else f"{low} to {high}"
        first = cutoff["first_below"] if cutoff["first_below"] is not None else beyond
        table.append([what, f"{summary['accuracy'][what]:.1%}", first, interval, cutoff["reach"]])
    return head, table
