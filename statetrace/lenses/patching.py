"""Activation patching (§2.3, §4.2, App. B): which activations the answer depends on.

Purpose: for pairs of sequences that differ in one action, overwrite activations at one site and
some positions, and measure how far the answer moves. NLD is the paper's normalized logit
difference, raw: with substitution 1 means the clean answer is restored and 0 that nothing
happened; with deletion 0 means nothing happened and 1 that the two answers are even. Probability
is that of the clean answer over the whole vocabulary.

Cost: see interventions/fast.py. The three default grids of a 6-layer, width-256 model at length 50
take about 1.7 s of one core per pair, those of a 4-layer, width-64 model at length 16 about 10 ms.

Caveat: both NLDs are 0/0 for pairs that the model answers alike; these are left out and counted.
Intervals are normal approximations of the mean over pairs (1.96 standard errors). NLD of a model
that barely prefers its answers has a small denominator and large outliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.interventions import Grid, GridSpec
from statetrace.lenses.parts.answers import check_fits, unlearned
from statetrace.lenses.parts.intervals import quantile
from statetrace.lenses.parts.pairs import Pairs, draw_pairs
from statetrace.lenses.parts.patched_answers import patched_answers
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.tasks.word_problem import WordProblem

PAPER = (
    GridSpec("prefix", "substitution"),  # Figures 2, 8A, 8B and 9
    GridSpec("suffix", "deletion"),  # Figure 8C
    GridSpec("window", "deletion", window=1),  # Figure 8D
)
METRICS = ("nld", "probability")
BY = ("action", "token")


@dataclass(frozen=True)
class PatchingSpec:
    """What to patch, on how many pairs."""

    pairs: int = 200
    """Pairs of a clean and a corrupted sequence; the paper's number."""

    grids: tuple[GridSpec, ...] = PAPER
    """The heat maps. `GridSpec.named("window3-deletion-head")` makes one from its name."""

    corrupt_at: int = 0
    """The action in which the two sequences differ."""

    length: int | None = None
    """Actions per sequence; None for the task's own length."""

    by: str = "action"
    """What a column of a heat map is: action, or token, which differs where actions are sentences.
    A window is so many of these. By token the result is called patching-by-token and stands beside
    the other, which verdicts and headlines read."""

    quotients: tuple[str, ...] | None = None
    """Split pairs by these quotients of the group; None for all it has, parity first."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise StatetraceError(f"{self.pairs} pairs are too few: use at least 1")
        if self.by not in BY:
            raise StatetraceError(f"by = {self.by!r} is unknown: use one of {', '.join(BY)}")
        names = [grid.name for grid in self.grids]
        if not names or len(set(names)) < len(names):
            raise StatetraceError(
                f"the grids are {', '.join(names) or 'none'}: give at least one, and none twice"
            )


def patching(
    model: Any,
    task: WordProblem,
    spec: PatchingSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """The table has a row per grid, split, metric, site and position: mean, standard deviation and
    95% interval over pairs. Arrays hold every pair: NAME.nld and NAME.probability [rows, columns,
    pairs] for each grid, its rows NAME.rows as (layer, head or -1), and the pairs themselves.
    """
    spec = spec or PatchingSpec()
    length = task.length if spec.length is None else spec.length
    check_fits(model, task, length)
    pairs = draw_pairs(task, spec.pairs, length, spec.corrupt_at, spec.seed)
    patched = patched_answers(model, task, pairs, spec.grids, spec.by, progress)
    answers, kept = patched.answers, patched.comparable
    splits = pairs.splits(task.quotients(spec.quotients))
    splits = {name: chosen[kept] for name, chosen in splits.items()}

    columns: dict[str, list[Any]] = {}
    arrays = _pair_arrays(pairs, answers, kept)
    for grid in patched.grids:
        values = {
            "nld": patched.nld(grid)[:, :, kept],
            "probability": np.exp(grid.values.double().numpy()[:, :, kept, 0]),
        }
        arrays[f"{grid.spec.name}.rows"] = np.array(
            [(site.layer, -1 if site.head is None else site.head) for site in grid.sites]
        )
        for metric, of_pairs in values.items():
            arrays[f"{grid.spec.name}.{metric}"] = of_pairs.astype(np.float32)
            for split, chosen in splits.items():
                part = _table(grid, split, metric, of_pairs[:, :, chosen])
                for column, entries in part.items():
                    columns.setdefault(column, []).extend(entries)

    right = answers == np.stack((pairs.clean_state, pairs.corrupted_state))  # [2, P]
    summary = {
        "length": length,
        "pairs": int(kept.sum()),
        "pairs_asked": spec.pairs,
        "pairs_left_out": int((~kept).sum()),
        "pairs_by_split": {name: int(chosen.sum()) for name, chosen in splits.items()},
        "accuracy": float(right.mean()),
        "chance": 1 / task.group.order,
    }
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


def _pair_arrays(pairs: Pairs, answers: np.ndarray, kept: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {
        "clean_actions": pairs.clean,
        "corrupted_actions": pairs.corrupted,
        "clean_state": pairs.clean_state,
        "corrupted_state": pairs.corrupted_state,
        "clean_answer": answers[0],
        "corrupted_answer": answers[1],
    }
    return {name: array[kept] for name, array in arrays.items()}


def _table(grid: Grid, split: str, metric: str, values: np.ndarray) -> dict[str, Sequence[Any]]:
    """The cells' statistics over pairs, values [R, C, n]; NaN where there are too few."""
    rows, columns, n = values.shape
    mean = values.mean(-1) if n else np.full((rows, columns), np.nan)
    std = values.std(-1, ddof=1) if n > 1 else np.full((rows, columns), np.nan)
    error = quantile() * std / max(1, n) ** 0.5
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
        "low": (mean - error).ravel().tolist(),
        "high": (mean + error).ravel().tolist(),
        "n": [n] * cells,
    }


def _notes(summary: dict[str, Any]) -> tuple[str, ...]:
    kept, left_out = summary["pairs"], summary["pairs_left_out"]
    drawn, asked, length = kept + left_out, summary["pairs_asked"], summary["length"]
    notes = []
    if drawn < asked:
        notes.append(
            f"{drawn} pairs instead of {asked}: there are no more sequences of length {length} to "
            "draw; use longer ones for more"
        )
    if left_out:
        notes.append(
            f"{left_out} of {drawn} pairs were left out: the model gives both of their sequences "
            "the same answer, so that NLD would be 0/0"
        )
    accuracy, chance = summary["accuracy"], summary["chance"]
    trouble = unlearned(accuracy, round(1 / chance), f"at length {length}")
    notes += [f"{trouble}; train it longer, or use a shorter length"] if trouble else []
    empty = [name for name, n in summary["pairs_by_split"].items() if n == 0]
    if empty:
        notes.append(f"no pairs are left in: {', '.join(empty)}; their numbers are missing (NaN)")
    return tuple(notes)
