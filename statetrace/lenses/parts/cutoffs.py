"""The cutoff of a curve of accuracies by length. Needs no torch."""

from __future__ import annotations

import numpy as np

THRESHOLD = 0.98
"""The paper's."""

NEVER = -1
"""No length is below the threshold."""


def first_below(accuracy: np.ndarray, threshold: float) -> np.ndarray:
    """[..., lengths] -> the first length below the threshold, NEVER if there is none."""
    below = accuracy < threshold
    return np.where(below.any(-1), below.argmax(-1) + 1, NEVER)


def reach(accuracy: np.ndarray, threshold: float) -> np.ndarray:
    """[..., lengths] -> the longest n with mean accuracy over lengths 1..n at or above the
    threshold (0 if none), which tolerates a single bad short length."""
    means = accuracy.cumsum(-1) / np.arange(1, accuracy.shape[-1] + 1)
    holds = means >= threshold
    return np.where(holds.any(-1), accuracy.shape[-1] - holds[..., ::-1].argmax(-1), 0)
