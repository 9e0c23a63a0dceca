"""Training curves with phases (section 5.1), and when each length was learned."""

from __future__ import annotations

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.reports.figures.after_stages import staged
from statetrace.reports.figures.chart import (
    TARGETS,
    Chart,
    Heat,
    Line,
    Panel,
    ReferenceLine,
    grid,
    numbers,
    share_panel,
    target_lines,
    target_styles,
)
from statetrace.reports.run_results import RunResults

MOST_POINTS = 200


def _targets(results: RunResults) -> list[str]:
    arrays = results.need("dynamics").arrays
    names = [name[len("accuracy_") :] for name in arrays if name.startswith("accuracy_")]
    return [*(name for name in TARGETS if name in names), *(n for n in names if n not in TARGETS)]


def choices(results: RunResults) -> dict[str, list[str]]:
    targets = _targets(results)
    return {"lengths for": targets} if targets else {}


def training(results: RunResults, lengths_for: str = "state") -> Chart:
    result = results.need("dynamics")
    names = _targets(results)
    if not names and result.columns.get("step"):
        return learned_by_length(results)  # the curves were not kept
    if not names:
        raise StatetraceError(result.notes[0] if result.notes else "the log has no evaluations")
    steps = result.arrays["steps"]
    drawn = np.unique(np.linspace(0, len(steps) - 1, MOST_POINTS).round().astype(int))
    steps = steps[drawn]
    starts = enumerate(result.summary.get("phases", [])[1:], start=2)
    phases = [ReferenceLine("x", float(start), str(number)) for number, start in starts]
    means = {name: result.arrays[f"accuracy_{name}"].mean(1)[drawn] for name in names}
    curves = target_lines(steps.tolist(), means, marked=False)
    loss = Line("loss", steps.tolist(), numbers(result.arrays["loss"][drawn]), "ink", mark=None)
    z = result.arrays[f"accuracy_{lengths_for}"][drawn].T
    by_length = Heat(steps.tolist(), list(range(1, len(z) + 1)), grid(z), "accuracy")
    stage = ", last stage" if staged(results) else ""  # the only one that the lens reads
    panels = (
        share_panel("step", "accuracy", [*curves, *phases], f"mean accuracy{stage}"),
        Panel("step", "loss", (loss, *phases), f"loss{stage}"),
        Panel("step", "length", (by_length,), f"{lengths_for} by length{stage}", whole="y"),
    )
    return Chart("training", "Accuracy and loss over training", panels)


def learned_by_length(results: RunResults, threshold: float = 0.9) -> Chart:
    """The step at which each length was learned, from the table of the lens."""
    reached = results.need("dynamics").rows(measure="reached", threshold=threshold)
    rows = [row for row in reached if row["step"] is not None]
    lines = []
    for what, (colour, mark) in target_styles(dict.fromkeys(row["what"] for row in rows)).items():
        x, y = ([row[key] for row in rows if row["what"] == what] for key in ("length", "step"))
        lines.append(Line(what, x, y, colour, mark=mark))
    if not lines:
        raise StatetraceError(f"no length reached an accuracy of {threshold:.0%}")
    panel = Panel("length", "training step", tuple(lines), whole="xy")
    return Chart("training", f"Steps until {threshold:.0%} are correct, by length", (panel,))
