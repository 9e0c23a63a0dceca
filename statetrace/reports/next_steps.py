"""What to do after reading a report: commands for this model or study, and what they are for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statetrace.lenses.registry import BUILTIN, ON_REQUEST
from statetrace.reports.run_results import FolderResults, RunResults, all_results

Steps = list[tuple[str, str]]


def next_steps(results: RunResults) -> Steps:
    """(command, its purpose), the most useful first. Results in memory have calls of Python."""
    steps: Steps = []
    if results.verdict is None:
        steps.append((results.verdict_command, "compute the verdict"))
    if not isinstance(results, FolderResults):
        actions = ",".join(results.group.labels[-3:])
        return [*steps, (f'model.look("{actions}")', "read every layer on a sequence of your own")]
    path = str(results.run.path)
    if results.verdict is not None and results.verdict["mechanism"] == "unlearned":
        steps += _unlearned(results, path)
    usual = [name for name in BUILTIN if name not in ON_REQUEST]
    missing = [name for name in usual if results.lens(name) is None and results.missing(name)[1]]
    if missing and len(missing) < len(usual):
        shorter = results.shorter_length
        at_length = [] if shorter is None else ["--at-length", str(shorter)]
        command = _command("analyze", path, "--only", ",".join(missing), *at_length)
        steps.append((command, "add missing lenses"))
    if results.run.has_weights:
        by_hand = "patch and ablate by hand, on sequences of your own"
        steps.append((_command("explore", path), by_hand))
    several = results.log is not None and len(results.run.checkpoints()) > 1
    if several and len(all_results(results.run)) == 1:
        command = _command("analyze", path, "--checkpoint", "all")
        steps.append((command, "add a slider over training to this page"))
    steps.append((_command("figures", path), "write the figures as PDF, with their numbers as CSV"))
    return steps


def _unlearned(results: FolderResults, path: str) -> Steps:
    if results.log is None:
        return []
    shorter = max(4, results.length // 2)
    task = ["--group", results.group.name, "--length", str(shorter)]
    retrain = _command("train", *task, "--out", f"{path}-length-{shorter}")
    return [
        (_command("show", path), "see which lengths it has learned"),
        (retrain, "train on shorter sequences, which are easier"),
    ]


def after_study(path: Path, rows: Sequence[dict[str, Any]]) -> Steps:
    """The same for a study."""
    from statetrace.studies.folder import Study

    steps: Steps = []
    if any(row["state"] != "finished" for row in rows):
        steps.append((_command("study", "status", str(path)), "see what is left to do"))
    judged = [row["cell"] for row in rows if row["verdict"]]
    study = Study.existing(path)
    cells = [cell for cell in study.plan.cells if cell.name in judged[:1]]
    steps += [
        (_command("report", str(study.run(cell).path)), "open one of its runs") for cell in cells
    ]
    steps.append((_command("study", "table", str(path)), "print the table with intervals"))
    return steps


def _command(*arguments: str) -> str:
    return shlex.join(["statetrace", *arguments])
