"""Activation patching (§2.3, §4.2, App. B): which activations the answer depends on.

Purpose: in pairs of sequences that differ in one action (by default the first), overwrite
activations at one site and some positions and measure the effect on the answer. NLD is the paper's
normalized logit difference: with substitution 1 means that the clean answer is restored and 0 that
there is no effect; with deletion 0 means no effect and 1 that the two answers are equally likely.
Probability is that of the clean answer over the whole vocabulary.

Cost: see interventions/cached.py. The three default grids of a 6-layer, width-256 model at length
50 take about 1.7 s of one core per pair, those of a 4-layer, width-64 model at length 16 about 10
ms.

Caveat: both NLDs are 0/0 for pairs that the model gives the same answer; these are excluded and
counted. Intervals are normal approximations of the mean over pairs (1.96 standard errors). The NLD
of a model that barely prefers its answers has a small denominator and large outliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions.grid import Grid
from statetrace.lenses.parts.answers import check_fits, low_accuracy
from statetrace.lenses.parts.intervals import median_interval, quantile
from statetrace.lenses.parts.pairs import Pairs, draw_pairs
from statetrace.lenses.parts.patched_answers import patched_answers
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.lenses.specs import PatchingSpec
from statetrace.tasks.word_problem import WordProblem

METRICS = ("nld", "probability")


def patching(
    model: Any,
    task: WordProblem,
    spec: PatchingSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """The table has a row per grid, split, metric, site and position: mean, standard deviation and
    95% interval over pairs. The arrays hold every pair: NAME.nld and NAME.probability [rows,
    columns, pairs] for each grid, its rows NAME.rows as (layer, head or -1), on request NAME.logits
    [rows, columns, pairs, states], and the pairs.
    """
    spec = spec or PatchingSpec()
    length = task.length if spec.length is None else spec.length
    check_fits(model, task, length)
    quotients = task.quotients(spec.quotients)
    if spec.balanced and not quotients:
        raise StatetraceError(f"{task.group.name} has no quotient to balance pairs by")
    balance = quotients[0] if spec.balanced else None
    pairs = draw_pairs(task, spec.pairs, length, spec.corrupt_at, spec.seed, balance)
    patched = patched_answers(model, task, pairs, spec.grids, spec.by, progress, logits=spec.logits)
    answers, valid = patched.answers, patched.comparable
    splits = pairs.splits(quotients)
    splits = {name: members[valid] for name, members in splits.items()}

    columns: dict[str, list[Any]] = {}
    arrays = _pair_arrays(pairs, answers, valid)
    for grid in patched.grids:
        values = {
            "nld": patched.nld(grid)[:, :, valid],
            "probability": np.exp(grid.values.double().numpy()[:, :, valid, 0]),
        }
        arrays[f"{grid.spec.name}.rows"] = np.array(
            [(site.layer, -1 if site.head is None else site.head) for site in grid.sites]
        )
        if spec.logits:
            logits = grid.values[:, :, torch.from_numpy(valid), 2:]
            arrays[f"{grid.spec.name}.logits"] = logits.float().numpy()
        for metric, by_pair in values.items():
            arrays[f"{grid.spec.name}.{metric}"] = by_pair.astype(np.float32)
            for split, members in splits.items():
                table = _table(grid, split, metric, by_pair[:, :, members], spec.average)
                for column, entries in table.items():
                    columns.setdefault(column, []).extend(entries)

    correct = answers == np.stack((pairs.clean_state, pairs.corrupted_state))  # [2, P]
    summary: dict[str, Any] = {"length": length, "pairs": int(valid.sum())}
    summary |= {"pairs_asked": spec.pairs, "pairs_left_out": int((~valid).sum())}
    summary["pairs_by_split"] = {name: int(members.sum()) for name, members in splits.items()}
    summary |= {"accuracy": float(correct.mean()), "chance": 1 / task.group.order}
    if task.vocabulary.stride > 1:
        summary["tokens_per_action"] = task.vocabulary.stride
    return LensResult(
        lens="patching" if spec.by == "action" else "patching-by-token",
        spec=asdict(spec) | {"grid_names": [grid.name for grid in spec.grids]},
        columns=columns,
        arrays=arrays,
        summary=summary,
        notes=_notes(summary),
    )


def _pair_arrays(pairs: Pairs, answers: np.ndarray, valid: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {
        "clean_actions": pairs.clean,
        "corrupted_actions": pairs.corrupted,
        "clean_state": pairs.clean_state,
        "corrupted_state": pairs.corrupted_state,
        "clean_answer": answers[0],
        "corrupted_answer": answers[1],
    }
    return {name: array[valid] for name, array in arrays.items()}


def _table(
    grid: Grid, split: str, metric: str, values: np.ndarray, average: str
) -> dict[str, Sequence[Any]]:
    """Statistics over pairs of each cell, values [R, C, n]; NaN if there are too few pairs."""
    rows, columns, n = values.shape
    mean, low, high = np.full((3, rows, columns), np.nan)
    std = values.std(-1, ddof=1) if n > 1 else np.full((rows, columns), np.nan)
    if n and average == "median":
        mean = np.median(values, axis=-1)
        low, high = median_interval(values)
    elif n:
        mean, error = values.mean(-1), quantile() * std / n**0.5
        low, high = mean - error, mean + error
    spec, cells = grid.spec, rows * columns

    def each(values: Sequence[Any]) -> list[Any]:
        return [value for value in values for _ in range(columns)]

    return {
        "where": [spec.where] * cells,
        "what": [spec.what] * cells,
        "window": [spec.window if spec.where == "window" else None] * cells,
        "kind": each([site.kind for site in grid.sites]),
        "layer": each([site.layer for site in grid.sites]),
        "head": each([site.head for site in grid.sites]),
        "position": list(range(columns)) * rows,
        "split": [split] * cells,
        "metric": [metric] * cells,
        "mean": mean.ravel().tolist(),
        "std": std.ravel().tolist(),
        "low": low.ravel().tolist(),
        "high": high.ravel().tolist(),
        "n": [n] * cells,
    }


def _notes(summary: dict[str, Any]) -> tuple[str, ...]:
    excluded, requested, length = (summary[k] for k in ("pairs_left_out", "pairs_asked", "length"))
    drawn = summary["pairs"] + excluded
    notes = []
    if drawn < requested:
        notes.append(
            f"{drawn} pairs instead of {requested}: length {length} has no more sequences; use a "
            "longer one"
        )
    if excluded:
        notes.append(
            f"{excluded} of {drawn} pairs were excluded: the model gives both sequences the same "
            "answer, so NLD would be 0/0"
        )
    accuracy, chance = summary["accuracy"], summary["chance"]
    consequence = "; train it longer, or use a shorter length"
    notes += low_accuracy(accuracy, round(1 / chance), f"at length {length}", consequence)
    empty = [name for name, n in summary["pairs_by_split"].items() if n == 0]
    if empty:
        notes.append(f"no pairs with {', '.join(empty)}; their numbers are missing (NaN)")
    return tuple(notes)
