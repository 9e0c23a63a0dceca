"""Whether a model has learned the task, and up to which length. Needs no torch.

A verdict describes a length that the model solves: the training length, or the longest length up
to which it is accurate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from statetrace.lenses.result import LensResult

LEARNED = 4
"""A model that fails after this many actions has not learned the task: for three actions or fewer,
the predictions of all algorithms agree to within a layer."""

WORKS = 0.9
"""Accuracy at the training length from which a model is analysed at that length."""

LOOKED_THROUGH = ("generalization", "probing", "patching", "depth", "attention")
"""Lenses that a verdict uses; `collect_evidence` computes missing results."""


def enough(have: Mapping[str, LensResult]) -> bool:
    """Whether these results, at the mastered length, suffice for a verdict."""
    if "generalization" not in have:
        return False
    own = int(have["generalization"].summary["training_length"])
    if mastered_length(have["generalization"]) < min(LEARNED, own):
        return True
    return all(lens in have for lens in LOOKED_THROUGH)


def mastered_length(general: LensResult) -> int:
    """The length of a verdict: the training length if accuracy there is at least WORKS, else the
    longest length up to which it is 98%."""
    own = int(general.summary["training_length"])
    rows = zip(*(general.columns[n] for n in ("what", "length", "accuracy")), strict=True)
    right = np.array(
        [share for _, share in sorted((n, a) for what, n, a in rows if what == "state")]
    )
    if len(right) >= own and right[own - 1] >= WORKS:
        return own
    return min(own, int(general.summary["cutoff"]["state"]["reach"]))
