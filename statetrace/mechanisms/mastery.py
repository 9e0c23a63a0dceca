"""Whether a model has learned the task, and up to which length. Needs no torch.

A verdict is about a length that the model solves: where it fails at the training length, it is
analyzed at the longest length that it solves.
"""

from __future__ import annotations

from collections.abc import Mapping

from statetrace.lenses.result import LensResult
from statetrace.mechanisms.evidence import by_length

LEARNED = 4
"""Actions a model must solve to run an algorithm at all: with three or fewer, all algorithms look
alike within a layer."""

SOLVED = 0.9
"""Accuracy at the training length from which a model is analyzed there."""

COLLECTED = ("generalization", "probing", "patching", "depth", "attention")
"""Lenses of a verdict; `collect_evidence` computes those that are missing."""


def enough(results: Mapping[str, LensResult]) -> bool:
    """Whether these results, at the length that the model solves, are enough for a verdict."""
    if "generalization" not in results:
        return False
    trained = int(results["generalization"].summary["training_length"])
    if solved_length(results["generalization"]) < min(LEARNED, trained):
        return True
    return all(lens in results for lens in COLLECTED)


def solved_length(general: LensResult) -> int:
    """The training length if most answers there are correct, else the longest length up to which
    98% are."""
    trained = int(general.summary["training_length"])
    accuracy = by_length(general, "state")
    if len(accuracy) >= trained and accuracy[trained - 1] >= SOLVED:
        return trained
    return min(trained, int(general.summary["cutoff"]["state"]["reach"]))
