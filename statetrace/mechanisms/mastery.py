"""Has a model learned the task, and up to which length? Needs no torch.

A verdict is about the length that a model gets right: where the model fails at its own length, it
is looked at again at the longest one it can do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from statetrace.lenses.result import LensResult

LEARNED = 4
"""The state must be right after this many actions, or there is no algorithm to speak of: composing
three actions or fewer, all algorithms look alike within a layer."""

WORKS = 0.9
"""Share of right answers at the task's own length above which it is looked at there."""

LOOKED_THROUGH = ("generalization", "probing", "patching", "depth", "attention")
"""Lenses whose results make a verdict; `collect_evidence` makes those that are missing."""


def enough(have: Mapping[str, LensResult]) -> bool:
    """Whether a verdict can be given from these results, made at the length to look at."""
    if "generalization" not in have:
        return False
    own = int(have["generalization"].summary["training_length"])
    if mastered_length(have["generalization"]) < min(LEARNED, own):
        return True
    return all(lens in have for lens in LOOKED_THROUGH)


def mastered_length(general: LensResult) -> int:
    """The length to look at: the task's own if most answers there are right, else the longest up to
    which 98% are."""
    own = int(general.summary["training_length"])
    rows = zip(*(general.columns[n] for n in ("what", "length", "accuracy")), strict=True)
    right = np.array(
        [share for _, share in sorted((n, a) for what, n, a in rows if what == "state")]
    )
    if len(right) >= own and right[own - 1] >= WORKS:
        return own
    return min(own, int(general.summary["cutoff"]["state"]["reach"]))
