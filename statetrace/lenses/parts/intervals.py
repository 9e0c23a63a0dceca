"""Confidence intervals for shares, means and medians, from normal quantiles."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95


def quantile(confidence: float = CONFIDENCE) -> float:
    """Half-width of the interval in standard errors: 1.96 for 95%."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(
    successes: np.ndarray, n: np.ndarray | int, confidence: float = CONFIDENCE
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share: within [0, 1] and valid at 0% and 100%."""
    z = quantile(confidence)
    share = np.asarray(successes) / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def median_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distribution-free interval of the median of values [..., n], n > 0: two order statistics,
    because the number of values below the median is binomial."""
    ordered = np.sort(values, axis=-1)
    n = ordered.shape[-1]
    half = quantile() * n**0.5 / 2
    first, last = int(np.floor(n / 2 - half)) - 1, int(np.ceil(n / 2 + half))
    return ordered[..., max(first, 0)], ordered[..., min(last, n - 1)]
