"""What each stage of a curriculum left behind: accuracy by length after it, as the paper shows for
its length curriculum of 10, 25, 50 and 100 actions (appendix H), and the way there.

Drawn from the log alone: every evaluation looks at all lengths of the task, also while a stage
trains on shorter ones. Cost: reading metrics.jsonl. Caveat: evaluations have fewer sequences than
the generalization lens, and end at the task's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.report.figures.chart import TURNS, Band, Chart, Line, Panel, ReferenceLine, numbers
from statetrace.report.run_results import RunResults, stage_length, stage_names
from statetrace.runs import Run

NAME = "stages"
TITLE = "After each stage of the curriculum"
ABOUT = (
    "Share of right answers by length at the end of each stage, the shading beginning where its "
    "sequences end (a cutoff, dotted, is the first length below 98%), and over all steps with a "
    "dashed line where a stage begins. With growing lengths the paper's associative models reach "
    "from 25 to 50 actions on their own, and its parity-associative ones do not."
)
THRESHOLD = 0.98
MOST_POINTS = 200


@dataclass(frozen=True)
class Ended:
    """How a stage ended.

    Attributes:
        told: what it taught, in a few words that tell it from its neighbours.
        length: of its sequences; `accuracy` says what share was right at each length of the task.
    """

    told: str
    length: int
    accuracy: dict[str, list[float]]

    def cutoff(self, what: str) -> int | None:
        """The first length below the threshold."""
        below = [n for n, share in enumerate(self.accuracy[what], 1) if share < THRESHOLD]
        return below[0] if below else None


def staged(look: RunResults) -> bool:
    """Whether the run has several stages."""
    return not look.logless and len(look.run.recipe.get("stage") or ()) > 1


def ended(run: Run, recipe: dict[str, Any]) -> list[Ended]:
    """The stages that have been evaluated, in turn."""
    last = {record.get("stage"): record for record in run.metrics("evaluation")}
    chain = recipe.get("stage") or ()
    names = [f"{n}-{stage.get('objective')}" for n, stage in enumerate(chain, start=1)]
    told = stage_names(chain, recipe["task"]["length"])
    return [
        Ended(
            words, stage_length(stage, recipe["task"]["length"]), last[name]["accuracy_by_length"]
        )
        for name, words, stage in zip(names, told, chain, strict=True)
        if name in last
    ]


def stages(look: RunResults) -> Chart:
    """A panel for each stage, and one over all steps."""
    if look.logless:
        raise StatetraceError(f"'{look.run.path}' was not trained here, so it has no stages")
    if not staged(look):
        raise StatetraceError(f"'{look.run.path}' was trained in one stage")
    found = ended(look.run, look.run.recipe)
    if not found:
        raise StatetraceError(f"the log of '{look.run.path}' has no evaluations")
    panels = [_after(stage) for stage in found]
    return Chart(NAME, "Accuracy after each stage", (*panels, _steps(look.run)), ABOUT)


def _after(stage: Ended) -> Panel:
    marks: list[Any] = beyond(stage.length, len(next(iter(stage.accuracy.values()))))
    spare = iter(TURNS * 9)
    for what, shares in stage.accuracy.items():
        colour, mark = style(what, spare)
        x = list(range(1, len(shares) + 1))
        marks.append(Line(what, x, numbers(shares), colour, mark=mark))
        end = stage.cutoff(what)
        if end is not None:
            marks.append(ReferenceLine("x", end, "", colour, "dot"))
    return by_length(marks, f"after {stage.told}", len(x))


def style(what: str, spare: Any) -> tuple[str, str]:
    known = {"state": ("state", "circle"), "parity": ("parity", "square")}
    return known[what] if what in known else (next(spare), "diamond")


def beyond(trained: int, longest: int) -> list[Any]:
    """The shading of lengths that a stage does not train on; panels are too small for words."""
    if longest <= trained:
        return []
    return [Band(trained + 0.5, longest + 0.5)]


def by_length(marks: Sequence[Any], title: str, longest: int) -> Panel:
    return Panel(
        "length",
        "right answers",
        tuple(marks),
        title,
        x_range=(0.5, longest + 0.5),
        y_range=(0, 1.04),
        whole="x",
    )


def _steps(run: Run) -> Panel:
    """Mean accuracy over the steps of all stages, one behind the other."""
    at: list[int] = []
    begins: list[int] = []
    offset, stage = 0, None
    records = run.metrics("evaluation")
    for record in records:
        if record.get("stage") != stage:
            offset, stage = (at[-1] if at else 0), record.get("stage")
            begins.append(offset)
        at.append(offset + record["step"])
    kept = np.unique(np.linspace(0, len(at) - 1, MOST_POINTS).round().astype(int))
    spare = iter(TURNS * 9)
    marks: list[Any] = []
    for what in records[0]["accuracy"]:
        shares = [records[i]["accuracy"][what] for i in kept]
        colour = style(what, spare)[0]
        marks.append(Line(what, [at[i] for i in kept], numbers(shares), colour, mark=None))
    marks += [ReferenceLine("x", start, str(n)) for n, start in enumerate(begins, start=1) if n > 1]
    return Panel("step", "right answers, all lengths", tuple(marks), "over all stages",
                 y_range=(0, 1.04))  # fmt: skip


def cutoff_table(look: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The cutoffs after each stage."""
    found = ended(look.run, look.run.recipe)
    if not found:
        return [], []
    what = list(found[0].accuracy)
    table = [
        [stage.told, *(cutoff_said(stage.cutoff(name), stage.accuracy[name]) for name in what)]
        for stage in found
    ]
    return ["after", *(f"{name} below 98% from" for name in what)], table


def cutoff_said(end: int | None, shares: Sequence[float]) -> str:
    return f"beyond {len(shares)}" if end is None else str(end)
