"""Accuracy of state, parity and every other quotient by length, and where it ends (section 4.4).

In the paper's words a model has learned the associative algorithm when its state and parity
cutoffs coincide, and the parity-associative one when parity reaches well beyond the state.

Cost: two forward passes over `sequences` sequences, the longer one of `longest` actions.
Caveat: up to the training length the sequences are held out from training where that is known; a
model with learned positions (GPT-2) has never seen those beyond it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from statetrace.config.checks import at_least, check_seed
from statetrace.errors import StatetraceError
from statetrace.lenses.parts.answers import answers, check_fits, unlearned
from statetrace.lenses.parts.intervals import CONFIDENCE, wilson
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.models import anatomy
from statetrace.tasks.word_problem import WordProblem

NEVER = -1
"""In bootstrap arrays: no length was below the threshold."""


@dataclass(frozen=True)
class GeneralizationSpec:
    """How to measure it."""

    longest: int | None = None
    """Longest sequence tried; by default twice the training length, or what the model can read."""
    sequences: int = 1000
    """Sequences per measurement."""
    threshold: float = 0.98
    """A cutoff is the first length at which accuracy is below this (the paper's 98%)."""
    bootstrap: int = 1000
    """Resamplings of the sequences for the cutoff's interval."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sequences", "bootstrap", "longest"):
            at_least(name, getattr(self, name), 1)
        check_seed("seed", self.seed)
        if not 0 < self.threshold <= 1:
            raise StatetraceError(f"threshold {self.threshold} must lie between 0 and 1")


def generalization(
    model: Any,
    task: WordProblem,
    spec: GeneralizationSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """Accuracy by length with Wilson intervals; cutoffs with bootstrap intervals."""
    spec = spec or GeneralizationSpec()
    longest, notes = _longest(model, task, spec)
    quotients = task.quotients()
    right: dict[str, list[np.ndarray]] = {}  # what -> one [n] array of bool per length
    lengths = np.arange(1, longest + 1)
    for first, last in ((0, min(task.length, longest)), (task.length, longest)):
        if first >= last:
            continue
        drawn = task.draw(spec.sequences, spec.seed, last)
        if len(drawn) < spec.sequences:
            notes.append(
                f"{len(drawn)} sequences of length {last} instead of {spec.sequences}: "
                "there are no more that were held out"
            )
        said = answers(model, task, drawn).astype(np.int64)
        true = drawn.states.astype(np.int64)
        for t in range(first, last):
            right.setdefault("state", []).append(said[:, t] == true[:, t])
            for quotient in quotients:
                image = quotient.map.astype(np.int64)
                same = image[said[:, t]] == image[true[:, t]]
                right.setdefault(quotient.name, []).append(same)
        progress(last / longest)
    chance = {"state": 1 / task.group.order} | {q.name: 1 / q.image.order for q in quotients}
    trained = float(np.mean([share.mean() for share in right["state"][: task.length]]))
    trouble = unlearned(trained, task.group.order, f"up to length {task.length}")
    notes += [trouble] if trouble else []
    columns = _table(lengths, right, chance)
    ends, arrays = _cutoffs(right, spec)
    return LensResult(
        lens="generalization",
        spec=dataclasses.asdict(spec) | {"longest": int(longest)},
        columns=columns,
        arrays=arrays,
        summary={
            "training_length": task.length,
            "longest": int(longest),
            "readable": _readable(model, task),
            "accuracy": {
                what: float(np.mean([share.mean() for share in shares[: task.length]]))
                for what, shares in right.items()
            },
            "threshold": spec.threshold,
            "cutoff": ends,
        },
        notes=tuple(notes),
    )


def _longest(model: Any, task: WordProblem, spec: GeneralizationSpec) -> tuple[int, list[str]]:
    if spec.longest is not None:
        check_fits(model, task, spec.longest)
        return spec.longest, []
    wanted = 2 * task.length
    readable = _readable(model, task)
    most = wanted if readable is None else readable
    check_fits(model, task, min(task.length, max(most, 1)))
    if most < wanted:
        positions = anatomy(model).max_length
        return most, [f"measured up to length {most}: the model has {positions} positions"]
    return wanted, []


def _readable(model: Any, task: WordProblem) -> int | None:
    """Actions that the model has positions for; None where it has no end of them."""
    positions = anatomy(model).max_length
    return None if positions is None else task.vocabulary.fitting(positions)


def _table(
    lengths: np.ndarray, right: dict[str, list[np.ndarray]], chance: dict[str, float]
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        name: [] for name in ("what", "length", "accuracy", "low", "high", "n", "chance")
    }
    for what, shares in right.items():
        counts = np.array([share.sum() for share in shares])
        n = np.array([len(share) for share in shares])
        low, high = wilson(counts, n)
        for i, length in enumerate(lengths):
            row = (what, int(length), counts[i] / n[i], low[i], high[i], int(n[i]), chance[what])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value if isinstance(value, str | int) else float(value))
    return columns


def first_below(accuracy: np.ndarray, threshold: float) -> np.ndarray:
    """[..., lengths] -> the first length below the threshold, NEVER where there is none."""
    below = accuracy < threshold
    return np.where(below.any(-1), below.argmax(-1) + 1, NEVER)


def reach(accuracy: np.ndarray, threshold: float) -> np.ndarray:
    """[..., lengths] -> the longest n with mean accuracy over lengths 1..n at or above the
    threshold (0 if none): one bad short length does not hide the rest."""
    means = accuracy.cumsum(-1) / np.arange(1, accuracy.shape[-1] + 1)
    holds = means >= threshold
    return np.where(holds.any(-1), accuracy.shape[-1] - holds[..., ::-1].argmax(-1), 0)


def _cutoffs(
    right: dict[str, list[np.ndarray]], spec: GeneralizationSpec
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Point estimates, and percentiles over resampled sequences (the same ones for every target,
    so that differences between cutoffs can be judged too)."""
    rng = np.random.default_rng([spec.seed, 1])
    sizes = {len(share) for share in right["state"]}
    weights = {
        n: rng.multinomial(n, np.full(n, 1 / n), size=spec.bootstrap) / n for n in sorted(sizes)
    }  # [bootstrap, n]
    tail = 100 * (1 - CONFIDENCE) / 2
    ends: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for what, shares in right.items():
        measured = np.array([share.mean() for share in shares])
        again = np.stack([weights[len(share)] @ share for share in shares], axis=-1)
        cut = first_below(again, spec.threshold)
        beyond = np.where(cut == NEVER, len(shares) + 1, cut)  # later than all that was tried
        low, high = np.percentile(beyond, [tail, 100 - tail], method="nearest")
        point = int(first_below(measured, spec.threshold))
        ends[what] = {
            "first_below": None if point == NEVER else point,
            "low": int(low),
            "high": None if high > len(shares) else int(high),
            "reach": int(reach(measured, spec.threshold)),
        }
        arrays[f"cutoff_bootstrap_{what}"] = cut.astype(np.int32)
    return ends, arrays
