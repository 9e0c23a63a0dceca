"""Accuracy by length after each stage of a curriculum, as the paper shows for its length curriculum
of 10, 25, 50 and 100 actions (appendix H), and over training.

Drawn from the log: every evaluation covers all lengths of the task, also while a stage trains on
shorter ones. The last stage is drawn from the generalization lens where that has analyzed it, so
that a report has one cutoff for the trained model. Cost: reading metrics.jsonl. Caveat: evaluations
use fewer sequences than the lens and end at the length of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.cutoffs import NEVER, THRESHOLD, first_below
from statetrace.mechanisms.mastery import by_length
from statetrace.reports.figures.chart import (
    Band,
    Chart,
    Panel,
    ReferenceLine,
    share_panel,
    target_lines,
)
from statetrace.reports.run_results import RunResults, stage_length, stage_names
from statetrace.runs import Run

MOST_POINTS = 200


@dataclass(frozen=True)
class StageEnd:
    """The end of a stage.

    Attributes:
        name: what distinguishes the stage from the others ("25 actions", "topic").
        length: of its sequences.
        accuracy: "state", "parity", ... -> accuracy at each length of the task.
    """

    name: str
    length: int
    accuracy: dict[str, list[float]]

    def cutoff(self, what: str) -> int | None:
        end = int(first_below(np.array(self.accuracy[what]), THRESHOLD))
        return None if end == NEVER else end

    def cutoff_text(self, what: str) -> str:
        return str(self.cutoff(what) or f"beyond {len(self.accuracy[what])}")


def staged(results: RunResults) -> bool:
    """Whether the run has several stages."""
    return results.log is not None and len(results.log.recipe.get("stage") or ()) > 1


def stage_ends(run: Run, recipe: dict[str, Any]) -> list[StageEnd]:
    """The evaluated stages, in order."""
    last = {record.get("stage"): record for record in run.metrics("evaluation")}
    chain, longest = recipe.get("stage") or (), recipe["task"]["length"]
    keys = [f"{n}-{stage.get('objective')}" for n, stage in enumerate(chain, start=1)]
    return [
        StageEnd(name, stage_length(stage, longest), last[key]["accuracy_by_length"])
        for key, name, stage in zip(keys, stage_names(chain, longest), chain, strict=True)
        if key in last
    ]


def _stage_ends(results: RunResults) -> list[StageEnd]:
    if results.log is None:
        return []
    ends = stage_ends(results.log, results.log.recipe)
    general, evaluations = results.lens("generalization"), results.log.evaluations()
    if ends and general and general.subject.get("step") == evaluations[-1]["step"]:
        length = len(ends[-1].accuracy["state"])
        measured = {what: by_length(general, what)[:length].tolist() for what in ends[-1].accuracy}
        ends[-1] = replace(ends[-1], accuracy=measured)
    return ends


def stages(results: RunResults) -> Chart:
    """A panel for each stage, and one over all steps."""
    if results.log is None:
        raise StatetraceError(f"'{results.location}' was not trained here and has no stages")
    if not staged(results):
        raise StatetraceError(f"'{results.location}' was trained in one stage")
    ends = _stage_ends(results)
    if not ends:
        raise StatetraceError(f"the log of '{results.location}' has no evaluations")
    panels = [_after(stage) for stage in ends]
    return Chart("stages", "Accuracy after each stage", (*panels, _steps(results.log)))


def _after(stage: StageEnd) -> Panel:
    longest = len(stage.accuracy["state"])
    marks: list[Any] = beyond(stage.length, longest)
    for line in target_lines(range(1, longest + 1), stage.accuracy):
        marks.append(line)
        end = stage.cutoff(line.name)
        if end is not None:
            marks.append(ReferenceLine("x", end, "", line.colour, "dot"))
    return length_panel(marks, f"after {stage.name}", longest)


def beyond(trained: int, longest: int) -> list[Any]:
    """Shading of the lengths beyond training, unlabelled because panels are small."""
    return [Band(trained + 0.5, longest + 0.5)] if longest > trained else []


def length_panel(marks: Sequence[Any], title: str, longest: int) -> Panel:
    x_range = (0.5, longest + 0.5)
    return share_panel("length", "accuracy", marks, title, x_range=x_range, whole="x")


def _steps(run: Run) -> Panel:
    """Mean accuracy over the steps of all stages, one after the other."""
    at: list[int] = []
    begins: list[int] = []
    offset, stage = 0, None
    records = run.metrics("evaluation")
    for record in records:
        if record.get("stage") != stage:
            offset, stage = (at[-1] if at else 0), record.get("stage")
            begins.append(offset)
        at.append(offset + record["step"])
    drawn = np.unique(np.linspace(0, len(at) - 1, MOST_POINTS).round().astype(int))
    means = [records[i]["accuracy"] for i in drawn]
    shares = {what: [mean[what] for mean in means] for what in means[0]}
    marks: list[Any] = target_lines([at[i] for i in drawn], shares, marked=False)
    marks += [ReferenceLine("x", start, str(n)) for n, start in enumerate(begins, start=1) if n > 1]
    return share_panel("step", "mean accuracy", marks, "over all stages")


def cutoff_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """The cutoffs after each stage."""
    ends = _stage_ends(results)
    if not ends:
        return [], []
    targets = list(ends[0].accuracy)
    table = [[stage.name, *(stage.cutoff_text(what) for what in targets)] for stage in ends]
    return ["after", *(f"{what} cutoff" for what in targets)], table
