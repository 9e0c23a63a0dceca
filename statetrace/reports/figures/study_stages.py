"""The length curriculum of a study (appendix H): accuracy by length after each stage, by mechanism.

Cost: reading the log of every run that was trained on growing lengths. Caveat: evaluations end at
the length of the task.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.reports.figures import study_shares
from statetrace.reports.figures.after_stages import StageEnd, beyond, length_panel, stage_ends
from statetrace.reports.figures.chart import Chart, Line, Panel, numbers

Runs = list[tuple[str, str, list[StageEnd]]]  # run, mechanism, stages


def _runs(path: Path) -> Runs:
    from statetrace.studies.folder import Study

    study = Study.existing(path)
    rows, _ = study_shares.study_rows(path)
    verdicts = {row["cell"]: row["verdict"] or "no verdict" for row in rows}
    runs = []
    for cell in study.plan.cells:
        chain = cell.recipe.get("stage") or ()
        lengths = [stage.get("length") or cell.recipe["task"]["length"] for stage in chain]
        if len(set(lengths)) > 1 and lengths == sorted(lengths):
            stages = stage_ends(study.run(cell), dict(cell.recipe))
            if stages:
                runs.append((cell.name, verdicts.get(cell.name, "no verdict"), stages))
    return runs


def grows(path: Path) -> bool:
    """Whether the log of some run of the study shows training on growing lengths."""
    return bool(_runs(path))


def study_lengths(path: Path) -> Chart:
    """A panel for each stage."""
    runs = _runs(path)
    if not runs:
        raise StatetraceError(f"no run of the study '{path}' was trained on growing lengths")
    names = dict.fromkeys(stage.name for _, _, stages in runs for stage in stages)
    panels = tuple(_panel(name, runs) for name in names)
    return Chart("study-lengths", "Accuracy by length after each stage", panels)


def _panel(name: str, runs: Runs) -> Panel:
    """Accuracy of the runs after one stage."""
    ends = [(mechanism, s) for _, mechanism, stages in runs for s in stages if s.name == name]
    longest = max(len(stage.accuracy["state"]) for _, stage in ends)
    marks: list[Any] = beyond(ends[0][1].length, longest)
    for mechanism in sorted({mechanism for mechanism, _ in ends}, key=study_shares.order):
        group = [stage for learned, stage in ends if learned == mechanism]
        colour, mark = study_shares.style(mechanism)
        for what in group[0].accuracy:
            shares = np.full((len(group), longest), np.nan)
            for row, stage in zip(shares, group, strict=True):
                row[: len(stage.accuracy[what])] = stage.accuracy[what]
            dash = "solid" if what == "state" else "dash"
            x = list(range(1, longest + 1))
            low, high = numbers(np.nanmin(shares, 0)), numbers(np.nanmax(shares, 0))
            mean = numbers(np.nanmean(shares, 0))
            marks.append(Line(f"{mechanism}: {what}", x, mean, colour, dash, mark, low, high))
    return length_panel(marks, f"after {name}, {len(ends)} run{'s' * (len(ends) > 1)}", longest)


def length_table(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Cutoffs after each stage, a row per run."""
    runs = _runs(path)
    names = list(dict.fromkeys(stage.name for _, _, stages in runs for stage in stages))
    table = []
    for run, mechanism, stages in runs:
        cutoffs = {s.name: " / ".join(map(s.cutoff_text, s.accuracy)) for s in stages}
        table.append([run, mechanism, *(cutoffs.get(name, "") for name in names)])
    return ["run", "learned", *(f"after {name}: state / parity" for name in names)], table
