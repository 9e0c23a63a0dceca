"""A compiled model as something to look at: its task, its accuracy, its run folder."""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.config.external import ExternalCheckpoint
from statetrace.groups import group_name
from statetrace.lenses.parts.answers import answers
from statetrace.models.checkpoint import quiet
from statetrace.models.compiled import CompileSpec
from statetrace.runs import Run
from statetrace.tasks.sequences import Sequences, scan
from statetrace.tasks.word_problem import WordProblem, word_problem


def task_of(spec: CompileSpec) -> WordProblem:
    """The question a compiled model answers."""
    return word_problem(
        spec.group, spec.length, start_marker=spec.start_marker, notation=spec.notation
    )


def check_compiled(model: Any, spec: CompileSpec, most: int) -> tuple[float, int, bool]:
    """Share of right answers after each action, on all sequences where there are at most `most`,
    else on `most` random ones; how many were tried; whether these were all."""
    task = task_of(spec)
    if not most:
        return float("nan"), 0, False
    exhaustive = task.space <= most
    if exhaustive:
        every = product(range(task.group.order), repeat=spec.length)
        actions = np.array(list(every), dtype=np.int64)
        tried = Sequences(actions, scan(task.group, actions))
    else:
        tried = task.sample(most, spec.seed)
    right = answers(model, task, tried) == tried.states
    return float(right.mean()), len(tried), exhaustive


def save_compiled(model: Any, spec: CompileSpec, folder: Path) -> Run:
    """The checkpoint, and a run.json that says how to read it and what it really does."""
    with quiet():
        model.save_pretrained(folder)
    run = Run(folder)
    external = ExternalCheckpoint(
        spec.group, spec.length, spec.notation, start_marker=spec.start_marker
    )
    named = dataclasses.replace(spec, group=group_name(spec.group))
    external.describe(run, compiled=dataclasses.asdict(named))
    return run
