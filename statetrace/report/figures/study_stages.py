"""The length curriculum of a study (appendix H): accuracy by length after each of its stages, for
the runs that learned each mechanism.

Cost: reading the log of every run that was trained on growing lengths. Caveat: evaluations end at
the task's length, as after_stages.py says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.report.figures import study_shares
from statetrace.report.figures.after_stages import Ended, beyond, by_length, cutoff_said, ended
from statetrace.report.figures.chart import Chart, Line, Panel, numbers

NAME = "study-lengths"
TITLE = "Length curriculum"
ABOUT = (
    "Accuracy by length after each stage, by the mechanism that was learned in the end: the mean "
    "over runs, and from the lowest to the highest. Solid: state; dashed: parity; shaded: longer "
    "than the stage has trained on. Runs whose state reaches into the shading as far as their "
    "parity compose associatively already. In the paper 2 of 5 such runs learned the associative "
    "mechanism, so that growing lengths decide nothing."
)
Found = list[tuple[str, str, list[Ended]]]  # run, mechanism, stages


def _found(path: Path) -> Found:
    from statetrace.studies.folder import Study

    study = Study.existing(path)
    rows, _ = study_shares.study_rows(path)
    judged = {row["cell"]: row["verdict"] or "not judged" for row in rows}
    found = []
    for cell in study.plan.cells:
        chain = cell.recipe.get("stage") or ()
        lengths = [stage.get("length") or cell.recipe["task"]["length"] for stage in chain]
        if len(set(lengths)) > 1 and lengths == sorted(lengths):
            stages = ended(study.run(cell), dict(cell.recipe))
            if stages:
                found.append((cell.name, judged.get(cell.name, "not judged"), stages))
    return found


def grows(path: Path) -> bool:
    """Whether some run of the study was trained on growing lengths, as far as its log goes."""
    return bool(_found(path))


def study_lengths(path: Path) -> Chart:
    """A panel for each stage."""
    found = _found(path)
    if not found:
        raise StatetraceError(f"no run of the study '{path}' was trained on growing lengths")
    told = dict.fromkeys(stage.told for _, _, stages in found for stage in stages)
    panels = tuple(_panel(words, found) for words in told)
    return Chart(NAME, "Accuracy by length after each stage", panels, ABOUT)


def _panel(told: str, found: Found) -> Panel:
    """What the runs could do after one stage."""
    here = [(mechanism, s) for _, mechanism, stages in found for s in stages if s.told == told]
    longest = max(len(stage.accuracy["state"]) for _, stage in here)
    marks: list[Any] = beyond(here[0][1].length, longest)
    for mechanism in sorted({name for name, _ in here}, key=study_shares.order):
        mine = [stage for name, stage in here if name == mechanism]
        colour, mark = study_shares.style(mechanism)
        for what in mine[0].accuracy:
            shares = np.full((len(mine), longest), np.nan)
            for row, stage in zip(shares, mine, strict=True):
                row[: len(stage.accuracy[what])] = stage.accuracy[what]
            dash = "solid" if what == "state" else "dash"
            x = list(range(1, longest + 1))
            low, high = numbers(np.nanmin(shares, 0)), numbers(np.nanmax(shares, 0))
            name = f"{mechanism}: {what}"
            mean = numbers(np.nanmean(shares, 0))
            marks.append(Line(name, x, mean, colour, dash, mark, low, high))
    return by_length(marks, f"after {told}, {len(here)} run{'s' * (len(here) > 1)}", longest)


def length_table(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Cutoffs after each stage, a row per run."""
    found = _found(path)
    told = list(dict.fromkeys(stage.told for _, _, stages in found for stage in stages))
    table = []
    for run, mechanism, stages in found:
        ends = {stage.told: _cutoffs(stage) for stage in stages}
        table.append([run, mechanism, *(ends.get(words, "") for words in told)])
    return ["run", "learned", *(f"after {words}: state / parity" for words in told)], table


def _cutoffs(stage: Ended) -> str:
    shown = (cutoff_said(stage.cutoff(what), shares) for what, shares in stage.accuracy.items())
    return " / ".join(shown)
