"""Solved length and cutoffs, the two terms for how far a model's accuracy goes. Needs no torch.

Every sentence about either uses these functions; glossary.toml has the definitions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from statetrace.config.settings import SOLVED
from statetrace.lenses.result import LensResult

LEARNED = 4
"""Actions a model must solve to run an algorithm at all: with three or fewer, all algorithms look
alike within a layer."""

NEEDED = ("generalization", "depth")
"""The lenses that decide a verdict; `collect_evidence` computes those that are missing."""

COLLECTED = (*NEEDED, "probing", "patching", "attention")
"""Those and the ones that are compared with the algorithms, as a check."""


def enough(results: Mapping[str, LensResult]) -> bool:
    """Whether these results, at the length that the model solves, are enough for a verdict."""
    if "generalization" not in results:
        return False
    return not has_learned(results["generalization"]) or "depth" in results


def solved_length(general: LensResult, what: str = "state") -> int:
    """The length at which the state (or a quotient) counts as solved, up to the training length."""
    trained = int(general.summary["training_length"])
    accuracy = by_length(general, what)
    if len(accuracy) >= trained and accuracy[trained - 1] >= SOLVED:
        return trained
    return min(trained, int(general.summary["cutoff"][what]["reach"]))


def has_learned(general: LensResult) -> bool:
    """Whether the solved length is enough for a verdict."""
    return solved_length(general) >= min(LEARNED, int(general.summary["training_length"]))


def cutoffs(general: LensResult) -> dict[str, int | str]:
    """Each target's cutoff: a length, or "beyond 24"."""
    beyond = f"beyond {general.summary['longest']}"
    ends = {what: cutoff["first_below"] for what, cutoff in general.summary["cutoff"].items()}
    return {what: beyond if end is None else int(end) for what, end in ends.items()}


def cutoff_sentence(general: LensResult) -> str:
    """ "98% cutoff: state 13, parity beyond 24" """
    listed = ", ".join(f"{what} {end}" for what, end in cutoffs(general).items())
    return f"{general.summary['threshold']:.0%} cutoff: {listed}"


def by_length(general: LensResult, kind: str) -> NDArray[np.float64]:
    """Accuracy of "state" or a quotient at lengths 1, 2, ..."""
    names = ("what", "length", "accuracy")
    rows = zip(*(general.columns[name] for name in names), strict=True)
    return np.array([share for _, share in sorted((n, a) for what, n, a in rows if what == kind)])
