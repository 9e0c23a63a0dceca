"""Compiled models: their task, accuracy and run folder."""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.config.external import ExternalCheckpoint
from statetrace.files import writing
from statetrace.groups import group_name
from statetrace.lenses.parts.answers import answers
from statetrace.models.checkpoint import quiet
from statetrace.models.compiled import CompileSpec
from statetrace.runs import Run
from statetrace.tasks.sequences import Sequences, scan
from statetrace.tasks.word_problem import WordProblem, word_problem


def task_of(spec: CompileSpec) -> WordProblem:
    """The task that a compiled model solves."""
    return word_problem(
        spec.group, spec.length, start_marker=spec.start_marker, notation=spec.notation
    )


def check_compiled(model: Any, spec: CompileSpec, most: int) -> tuple[float, int, bool]:
    """Accuracy over all actions, on all sequences if there are at most `most`, else on `most`
    random ones; the number of sequences; and whether these were all."""
    task = task_of(spec)
    if not most:
        return float("nan"), 0, False
    exhaustive = task.space <= most
    if exhaustive:
        rows = product(range(task.group.order), repeat=spec.length)
        actions = np.array(list(rows), dtype=np.int64)
        sequences = Sequences(actions, scan(task.group, actions))
    else:
        sequences = task.sample(most, spec.seed)
    correct = answers(model, task, sequences) == sequences.states
    return float(correct.mean()), len(sequences), exhaustive


def save_compiled(model: Any, spec: CompileSpec, folder: Path) -> Run:
    """Write the checkpoint, and a run.json with its task and its algorithm."""
    with writing(folder), quiet():
        model.save_pretrained(folder)
    run = Run(folder)
    external = ExternalCheckpoint(
        spec.group, spec.length, spec.notation, start_marker=spec.start_marker
    )
    named = dataclasses.replace(spec, group=group_name(spec.group))
    external.describe(run, compiled=dataclasses.asdict(named))
    return run
