"""Accuracy by length with cutoffs (Figure 5)."""

from __future__ import annotations

from typing import Any

from statetrace.report.figures.chart import TURNS, Band, Chart, Line, Panel, ReferenceLine, numbers
from statetrace.report.run_results import RunResults

NAME = "generalization"
TITLE = "Generalization to other lengths"
ABOUT = (
    "Share of right answers after each number of actions, with 95% intervals; the model was "
    "trained up to where the shading begins. A cutoff (dotted) is the first length below 98%. "
    "Where parity goes on after the state has failed, parity is computed on its own."
)
ROOM = 0.36
"""Share of the axis that a cutoff's words take on a phone: they stand left of it if that fits, as
curves fall to the right."""
MARKS = {"state": "circle", "parity": "square"}


def generalization(look: RunResults) -> Chart:
    result = look.need("generalization")
    summary, rows = result.summary, result.rows()
    marks: list[Any] = []
    trained, longest = int(summary["training_length"]), int(summary["longest"])
    if longest > trained:
        marks.append(Band(trained + 0.5, longest + 0.5, "longer than trained on"))
    marks.append(ReferenceLine("y", float(summary["threshold"]), "", dash="dot"))
    spare = iter(TURNS * 9)
    cutoffs = []
    for what in dict.fromkeys(row["what"] for row in rows):
        mine = [row for row in rows if row["what"] == what]
        colour = what if what in MARKS else next(spare)
        marks.append(
            Line(
                what,
                [row["length"] for row in mine],
                numbers(row["accuracy"] for row in mine),
                colour,
                mark=MARKS.get(what, "diamond"),
                low=numbers(row["low"] for row in mine),
                high=numbers(row["high"] for row in mine),
            )
        )
        end = summary["cutoff"][what]["first_below"]
        if end is not None:
            cutoffs.append((int(end), what, colour))
    for i, end in enumerate(sorted({end for end, _, _ in cutoffs})):
        here = [(what, colour) for at, what, colour in cutoffs if at == end]
        words = f"{' and '.join(what for what, _ in here)} cutoff {end}"
        side = "left" if end > ROOM * longest else "right"
        # low down, where curves are rarely, and one above the other
        beside = (side, 0.02 + 0.08 * i)
        marks.append(ReferenceLine("x", end, words, here[0][1], "dot", beside))
    panel = Panel(
        "length",
        "right answers",
        tuple(marks),
        x_range=(0.5, longest + 0.5),
        y_range=(0, 1.04),
        whole="x",
    )
    return Chart(NAME, "Accuracy by length", (panel,), ABOUT)


def cutoff_table(look: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The cutoffs with their intervals."""
    summary = look.need("generalization").summary
    head = ["", "right up to the training length", "first below", "95% interval", "reach"]
    table: list[list[Any]] = []
    for what, cutoff in summary["cutoff"].items():
        beyond = f"beyond {summary['longest']}"
        low = cutoff["low"] if cutoff["low"] <= summary["longest"] else beyond
        high = beyond if cutoff["high"] is None else cutoff["high"]
        interval = str(low) if low == high else f"{low} to {high}"
        first = cutoff["first_below"] if cutoff["first_below"] is not None else beyond
        table.append([what, f"{summary['accuracy'][what]:.1%}", first, interval, cutoff["reach"]])
    return head, table
