"""Accuracy of the state, parity and every other quotient by length, and their cutoffs (section
4.4).

According to the paper, a model has learned the associative algorithm if its state and parity
cutoffs coincide, and the parity-associative one if parity stays accurate well beyond the state.

Cost: two forward passes over `sequences` sequences, the longer one of `longest` actions.
Caveat: up to the training length the sequences are held out from training, if the training set is
known. Learned positions (GPT-2) beyond the training length are untrained.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from statetrace.lenses.parts.answers import check_fits, low_accuracy, stacked_answers, too_few
from statetrace.lenses.parts.cutoffs import NEVER, first_below, reach
from statetrace.lenses.parts.intervals import CONFIDENCE, wilson
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.lenses.specs import GeneralizationSpec
from statetrace.models import anatomy
from statetrace.models.stack import ModelStack
from statetrace.tasks.word_problem import WordProblem

Correct = dict[str, list[np.ndarray]]
"""What ("state" or a quotient) -> for each length, whether each of n sequences is correct [n]."""


def generalization(
    model: Any,
    task: WordProblem,
    spec: GeneralizationSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Accuracy by length with Wilson intervals; cutoffs with bootstrap intervals."""
    return stacked_generalization([model], task, spec, progress)[0]


def stacked_generalization(
    models: Sequence[Any],
    task: WordProblem,
    spec: GeneralizationSpec | None = None,
    progress: Progress = no_progress,
) -> list[LensResult]:
    """The results of several models of one shape."""
    spec, stack = spec or GeneralizationSpec(), ModelStack(models)
    longest, notes = _longest(stack.first, task, spec)
    quotients = task.quotients()
    correct: list[Correct] = [{} for _ in models]
    for first, last in ((0, min(task.length, longest)), (task.length, longest)):
        if first >= last:
            continue
        drawn = task.draw(spec.sequences, spec.seed, last)
        notes += too_few(len(drawn), spec.sequences, last)
        predicted = stacked_answers(stack, task, drawn)[..., first:].astype(np.int64)
        true = drawn.states[:, first:].astype(np.int64)
        maps = {"state": np.arange(task.group.order)}
        maps |= {quotient.name: quotient.map.astype(np.int64) for quotient in quotients}
        for of_model, states in zip(correct, predicted, strict=True):
            for what, image in maps.items():
                of_model.setdefault(what, []).extend((image[states] == image[true]).T)
        progress(last / longest)
    return [_result(stack.first, task, spec, of_model, notes) for of_model in correct]


def _result(
    model: Any, task: WordProblem, spec: GeneralizationSpec, correct: Correct, notes: list[str]
) -> LensResult:
    """The result of one model."""
    longest = len(correct["state"])
    chance = {"state": 1 / task.group.order} | {
        quotient.name: 1 / quotient.image.order for quotient in task.quotients()
    }
    accuracy = {
        what: float(np.mean([sample.mean() for sample in samples[: task.length]]))
        for what, samples in correct.items()
    }
    low = low_accuracy(accuracy["state"], task.group.order, f"up to length {task.length}")
    notes = [*notes, *low]
    columns = _table(np.arange(1, longest + 1), correct, chance)
    cutoffs, arrays = _cutoffs(correct, spec)
    return LensResult(
        lens="generalization",
        spec=dataclasses.asdict(spec) | {"longest": longest},
        columns=columns,
        arrays=arrays,
        summary={
            "training_length": task.length,
            "longest": longest,
            "readable": _readable(model, task),
            "accuracy": accuracy,
            "threshold": spec.threshold,
            "cutoff": cutoffs,
        },
        notes=tuple(notes),
    )


def _longest(model: Any, task: WordProblem, spec: GeneralizationSpec) -> tuple[int, list[str]]:
    if spec.longest is not None:
        check_fits(model, task, spec.longest)
        return spec.longest, []
    requested = 2 * task.length
    readable = _readable(model, task)
    most = requested if readable is None else readable
    check_fits(model, task, min(task.length, max(most, 1)))
    if most < requested:
        positions = anatomy(model).max_length
        return most, [f"measured up to length {most}: the model has {positions} positions"]
    return requested, []


def _readable(model: Any, task: WordProblem) -> int | None:
    """The most actions that fit the positions of the model; None if these are unlimited."""
    positions = anatomy(model).max_length
    return None if positions is None else task.vocabulary.fitting(positions)


def _table(lengths: np.ndarray, correct: Correct, chance: dict[str, float]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        name: [] for name in ("what", "length", "accuracy", "low", "high", "n", "chance")
    }
    for what, samples in correct.items():
        counts = np.array([sample.sum() for sample in samples])
        n = np.array([len(sample) for sample in samples])
        low, high = wilson(counts, n)
        for i, length in enumerate(lengths):
            row = (what, int(length), counts[i] / n[i], low[i], high[i], int(n[i]), chance[what])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value if isinstance(value, str | int) else float(value))
    return columns


def _cutoffs(
    correct: Correct, spec: GeneralizationSpec
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Cutoffs, and their percentiles over resampled sequences (the same samples for every target,
    so that differences between cutoffs can be tested)."""
    sizes = tuple(sorted({len(sample) for sample in correct["state"]}))
    weights = _resampling(spec.seed, spec.bootstrap, sizes)
    tail = 100 * (1 - CONFIDENCE) / 2
    cutoffs: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for what, samples in correct.items():
        measured = np.array([sample.mean() for sample in samples])
        resampled = np.concatenate(
            [
                weights[n] @ np.stack([*same], axis=-1)
                for n, same in itertools.groupby(samples, key=len)
            ],
            axis=-1,
        )
        cut = first_below(resampled, spec.threshold)
        finite = np.where(cut == NEVER, len(samples) + 1, cut)
        low, high = np.percentile(finite, [tail, 100 - tail], method="nearest")
        point = int(first_below(measured, spec.threshold))
        cutoffs[what] = {
            "first_below": None if point == NEVER else point,
            "low": int(low),
            "high": None if high > len(samples) else int(high),
            "reach": int(reach(measured, spec.threshold)),
        }
        arrays[f"cutoff_bootstrap_{what}"] = cut.astype(np.int32)
    return cutoffs, arrays


@lru_cache(maxsize=2)
def _resampling(seed: int, samples: int, sizes: tuple[int, ...]) -> dict[int, np.ndarray]:
    """By number of sequences n: how much each weighs in each bootstrap sample [samples, n]."""
    rng = np.random.default_rng([seed, 1])
    return {n: rng.multinomial(n, np.full(n, 1 / n), size=samples) / n for n in sizes}
