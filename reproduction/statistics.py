"""A measured number with its interval and n, and the intervals that measures use (all 95%)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from reproduction.tables import Missing

Z = 1.959963984540054
RESAMPLES = 2_000


@dataclass(frozen=True)
class Number:
    """A measured value.

    Attributes:
        n, of: how many of what it was counted over ("sequences", "models").
        low, high: the 95% interval, where there is one.
        unit: "share" prints as a percentage; others follow the number.
        detail: what the value was computed from, for the page ("44 of 45").
    """

    value: float
    n: int
    of: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    detail: str = ""

    def text(self) -> str:
        """As it is printed: "93% (88% to 97%)", "10.0 layers (9.00 to 11.0)"."""
        unit = f" {self.unit}" if self.unit not in ("", "share", "%", "°") else ""
        if self.low is None or self.high is None or self.low == self.high:
            return f"{self.format(self.value)}{unit}"
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{self.format(self.value)}{unit} (no interval)"
        return (
            f"{self.format(self.value)}{unit} ({self.format(self.low)} to {self.format(self.high)})"
        )

    def format(self, value: float) -> str:
        if self.unit == "share":
            text = f"{100 * value:.0f}%" if abs(value) >= 0.1 or value == 0 else f"{value:.1%}"
        else:
            text = f"{value:.3g}" + (self.unit if self.unit in ("%", "°") else "")
        return text.replace("-", "−")


def wilson(count: float, n: int, confidence_z: float = Z) -> tuple[float, float]:
    """Wilson's interval of a share."""
    share, z = count / n, confidence_z
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def share(count: int, n: int, of: str = "models") -> Number:
    if not n:
        raise Missing(f"there are no such {of}")
    return Number(count / n, n, of, *wilson(count, n), "share", f"{count} of {n}")


def mean_share(values: np.ndarray, of: str, unit: str = "", detail: str = "") -> Number:
    """The mean of values from 0 to 1."""
    value, off = float(values.mean()), float(Z * values.std(ddof=1) / len(values) ** 0.5)
    return Number(value, len(values), of, value - off, min(1.0, value + off), unit, detail)


def deviation_interval(value: float, n: int) -> tuple[float, float]:
    """Of a standard deviation over n values, by the Wilson-Hilferty approximation."""
    if n < 2:
        return 0.0, math.inf
    part = 2 / (9 * (n - 1))
    most, least = (1 - part + sign * Z * part**0.5 for sign in (1, -1))
    return value / most**1.5, value / least**1.5 if least > 0 else math.inf


def ranks(values: Sequence[float]) -> np.ndarray:
    """Average ranks."""
    array = np.asarray(values, dtype=float)
    return np.array([(array < x).sum() + ((array == x).sum() - 1) / 2 for x in array])


def rank_correlation(x: Sequence[float], y: Sequence[float], of: str) -> Number:
    """Spearman's, with Fisher's interval."""
    value, n = float(np.corrcoef(ranks(x), ranks(y))[0, 1]), len(x)
    if n < 4:
        return Number(value, n, of, -1.0, 1.0)
    middle = math.atanh(min(max(value, -0.9999), 0.9999))
    off = Z / (n - 3) ** 0.5
    return Number(value, n, of, math.tanh(middle - off), math.tanh(middle + off))


def mean_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """Mean of the first minus mean of the second, with a bootstrap interval."""
    rng = np.random.default_rng(0)
    means = [
        rng.choice(np.asarray(values, dtype=float), (RESAMPLES, len(values))).mean(1)
        for values in (first, second)
    ]
    low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
    return float(np.mean(first) - np.mean(second)), float(low), float(high)


def kappa(first: Sequence[str], second: Sequence[str]) -> tuple[float, float, float]:
    """Cohen's kappa of two labellings, with a bootstrap interval."""
    pairs = list(zip(first, second, strict=True))
    rng = np.random.default_rng(0)
    draws = [
        _kappa([pairs[i] for i in rng.integers(0, len(pairs), len(pairs))])
        for _ in range(RESAMPLES)
    ]
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return _kappa(pairs), float(low), float(high)


def _kappa(pairs: list[tuple[str, str]]) -> float:
    n = len(pairs)
    agreement = sum(a == b for a, b in pairs) / n
    counts = [Counter(side) for side in zip(*pairs, strict=True)]
    chance = sum(counts[0][label] * counts[1][label] for label in counts[0]) / n**2
    return (agreement - chance) / (1 - chance) if chance < 1 else math.nan


Counts = tuple[int, int, int, int]
"""Successes and size of one group of models, then of the other."""


def exact_p(tables: Sequence[Counts]) -> float:
    """One-sided p that the first groups have this many successes or more: Fisher's exact test,
    stratified by table."""
    observed = sum(a for a, _, _, _ in tables)
    chance = [1.0]
    for a, m, b, n in tables:
        ways = [
            math.comb(m, k) * math.comb(n, a + b - k) if k <= a + b else 0 for k in range(m + 1)
        ]
        longer = [0.0] * (len(chance) + m)
        for (i, before), (k, way) in product(enumerate(chance), enumerate(ways)):
            longer[i + k] += before * way / math.comb(m + n, a + b)
        chance = longer
    return min(1.0, sum(chance[observed:]))


def exact_two_sided(first: Sequence[int], second: Sequence[int]) -> float:
    """Chance of counts by category that are at most as likely as these, given the totals: Fisher's
    exact test, extended to several categories by Freeman and Halton."""
    totals = [a + b for a, b in zip(first, second, strict=True)]
    size = sum(first)
    splits = (some for some in product(*(range(n + 1) for n in totals)) if sum(some) == size)
    ways = [math.prod(map(math.comb, totals, some)) for some in splits]
    observed = math.prod(map(math.comb, totals, first))
    return sum(way for way in ways if way <= observed) / sum(ways)


def share_difference(tables: Sequence[Counts]) -> tuple[float, float, float]:
    """Share in the first groups minus share in the second: differences within tables with
    Mantel-Haenszel weights and Agresti and Caffo's interval, which suits small groups and is not
    centered on the difference."""
    weights = [m * n / (m + n) for _, m, _, n in tables]
    value = sum(w * (a / m - b / n) for w, (a, m, b, n) in zip(weights, tables, strict=True))
    center, variance = 0.0, 0.0
    for weight, (a, m, b, n) in zip(weights, tables, strict=True):
        p, q, part = (a + 1) / (m + 2), (b + 1) / (n + 2), weight / sum(weights)
        center += part * (p - q)
        variance += part**2 * (p * (1 - p) / (m + 2) + q * (1 - q) / (n + 2))
    half = 1.96 * math.sqrt(variance)
    return value / sum(weights), center - half, center + half


def sign_test(changes: Sequence[float]) -> float:
    """Two-sided p that as many of these have the same sign; zeros are left out."""
    signs = [change > 0 for change in changes if change]
    n, fewer = len(signs), min(sum(signs), len(signs) - sum(signs))
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n)


def permutation_p(
    statistic: Callable[[np.ndarray], float], values: Sequence[float], draws: int = 10_000
) -> float:
    """One-sided p of `statistic(values)` where the order of the values does not matter."""
    array, rng = np.asarray(values, dtype=float), np.random.default_rng(0)
    observed = statistic(array) - 1e-12
    beyond = sum(statistic(rng.permutation(array)) >= observed for _ in range(draws))
    return (1 + beyond) / (1 + draws)


def spearman(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Spearman's rank correlation, and its one-sided p by permutation."""
    centered = [r - r.mean() for r in (ranks(x), ranks(y))]
    scale = math.sqrt(float(np.prod([(r**2).sum() for r in centered])))
    if not scale:
        return 0.0, 1.0
    value = float(centered[0] @ centered[1]) / scale
    return value, permutation_p(lambda ys: float(centered[0] @ ys), centered[1].tolist())
