"""Change points of a series: least-squares segmentation into straight pieces."""

from __future__ import annotations

import numpy as np

SHORTEST = 3
"""The fewest points of a piece."""


def segments(series: np.ndarray, most: int) -> list[int]:
    """The starts of the straight pieces that fit a series [n, channels] best.

    Exact dynamic programming over all segmentations with pieces of at least SHORTEST points; the
    number of pieces is chosen by the Bayesian information criterion. Cost: n² line fits.
    """
    n, channels = series.shape
    if n < 2 * SHORTEST:
        return [0]
    cost = _line_costs(series)
    most = min(most, n // SHORTEST)
    best = np.full((most + 1, n + 1), np.inf)  # best[k, j]: k pieces for the first j points
    cut = np.zeros((most + 1, n + 1), dtype=int)
    best[0, 0] = 0
    for k in range(1, most + 1):
        for j in range(k * SHORTEST, n + 1):
            starts = np.arange((k - 1) * SHORTEST, j - SHORTEST + 1)
            totals = best[k - 1, starts] + cost[starts, j]
            cut[k, j] = starts[totals.argmin()]
            best[k, j] = totals.min()
    floor = 1e-9 * n * channels  # limits the gain of a perfect fit
    parameters = np.arange(1, most + 1) * (2 * channels + 1)
    observed = n * channels
    criterion = observed * np.log(np.maximum(best[1:, n], floor) / observed)
    criterion = criterion + parameters * np.log(observed)
    k, j, starts_of_pieces = int(criterion.argmin()) + 1, n, []
    while k > 0:
        j = int(cut[k, j])
        starts_of_pieces.append(j)
        k -= 1
    return starts_of_pieces[::-1]


def _line_costs(series: np.ndarray) -> np.ndarray:
    """cost[i, j]: squared error of the best lines through points i..j-1, over all channels."""
    n = len(series)
    x = np.arange(n, dtype=float)

    def sums(values: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros((1, *values.shape[1:])), values.cumsum(axis=0)])

    sx, sxx = sums(x), sums(x * x)
    sy, syy, sxy = sums(series), sums(series**2), sums(x[:, None] * series)
    cost = np.full((n + 1, n + 1), np.inf)
    for i in range(n):
        j = np.arange(i + 1, n + 1)
        m = (j - i).astype(float)
        dx, dxx = sx[j] - sx[i], sxx[j] - sxx[i]
        dy, dyy, dxy = sy[j] - sy[i], syy[j] - syy[i], sxy[j] - sxy[i]
        vx = dxx - dx**2 / m
        vy = dyy - dy**2 / m[:, None]
        covariance = dxy - dx[:, None] * dy / m[:, None]
        explained = np.divide(
            covariance**2, vx[:, None], out=np.zeros_like(covariance), where=vx[:, None] > 1e-12
        )
        cost[i, j] = np.maximum(vy - explained, 0).sum(axis=1)
    return cost
