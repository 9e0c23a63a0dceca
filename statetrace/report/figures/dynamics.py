"""Training curves with phases (section 5.1), and which lengths were learned when."""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrace.report.figures.after_stages import staged
from statetrace.report.figures.chart import (
    TURNS,
    Chart,
    Heat,
    Line,
    Panel,
    ReferenceLine,
    grid,
    numbers,
)
from statetrace.report.run_results import RunResults

NAME = "training"
TITLE = "Training"
ABOUT = (
    "Left: mean accuracy over all lengths at each evaluation; dashed lines are where training "
    "changes pace and a phase begins, by number. Middle: the loss. Right: accuracy by length. In "
    "parity-associative models parity is learned at all lengths first and the state "
    "afterwards; in associative ones they rise together."
)
MOST_POINTS = 200


def _known(look: RunResults) -> list[str]:
    arrays = look.need("dynamics").arrays
    names = [name[len("accuracy_") :] for name in arrays if name.startswith("accuracy_")]
    return sorted(
        names,
        key=lambda name: ("state", "parity").index(name) if name in ("state", "parity") else 9,
    )


def choices(look: RunResults) -> dict[str, list[str]]:
    return {"lengths for": _known(look)}


def training(look: RunResults, lengths_for: str = "state") -> Chart:
    result = look.need("dynamics")
    names = _known(look)
    if not names:
        from statetrace.errors import StatetraceError

        raise StatetraceError(result.notes[0] if result.notes else "the log has no evaluations")
    steps = result.arrays["steps"]
    kept = np.unique(np.linspace(0, len(steps) - 1, MOST_POINTS).round().astype(int))
    steps = steps[kept]
    phases = [
        ReferenceLine("x", float(start), str(number))
        for number, start in enumerate(result.summary.get("phases", []), start=1)
        if number > 1
    ]
    spare = iter(TURNS * 9)
    curves: list[Any] = []
    for name in names:
        colour = name if name in ("state", "parity") else next(spare)
        mean = result.arrays[f"accuracy_{name}"].mean(1)[kept]
        curves.append(Line(name, steps.tolist(), numbers(mean), colour, mark=None))
    loss = Line("loss", steps.tolist(), numbers(result.arrays["loss"][kept]), "ink", mark=None)
    z = result.arrays[f"accuracy_{lengths_for}"][kept].T
    grown = Heat(steps.tolist(), list(range(1, len(z) + 1)), grid(z), "accuracy")
    part = ", last stage" if staged(look) else ""  # the lens reads no other
    panels = (
        Panel("step", "right answers", (*curves, *phases), f"accuracy{part}", y_range=(0, 1.04)),
        Panel("step", "loss", (loss, *phases), f"loss{part}"),
        Panel("step", "length", (grown,), f"{lengths_for} by length{part}", whole="y"),
    )
    return Chart(NAME, "Accuracy and loss over training", panels, ABOUT)
