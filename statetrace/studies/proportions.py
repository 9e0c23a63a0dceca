"""How often each mechanism was learned, and which factors that depends on (section 5.2).

Shares have Wilson intervals. Each factor has a permutation test: verdicts are shuffled within
groups of cells that agree in all other factors, and Pearson's statistic of the table (level x
mechanism) is compared with its values under shuffling. Data orders are not a factor; cells that
differ only in them are repetitions.

Cost: SHUFFLES shuffles of a column per factor, a second for a thousand cells. Needs no torch.
Caveat: without repetitions, or with one level per group, p is 1. There is one test per factor,
without correction for multiple tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from statetrace.lenses.parts.intervals import wilson
from statetrace.studies.folder import FINISHED
from statetrace.studies.grid import SEED

SHUFFLES = 9_999

Row = dict[str, Any]


def proportions(rows: Sequence[Row], factors: Sequence[str]) -> list[Row]:
    """A row per combination of levels and mechanism: the share of cells that learned it."""
    factors = [factor for factor in factors if factor != SEED]
    judged = _judged(rows)
    mechanisms = sorted({row["verdict"] for row in judged})
    shares = []
    for levels in dict.fromkeys(tuple(row[f] for f in factors) for row in judged):
        here = [row for row in judged if tuple(row[f] for f in factors) == levels]
        for mechanism in mechanisms:
            count = sum(row["verdict"] == mechanism for row in here)
            low, high = wilson(np.array(count), len(here))
            shares.append(
                {
                    **dict(zip(factors, levels, strict=True)),
                    "mechanism": mechanism,
                    "cells": len(here),
                    "count": count,
                    "share": count / len(here),
                    "low": float(low),
                    "high": float(high),
                }
            )
    return shares


def associations(rows: Sequence[Row], factors: Sequence[str], seed: int = 0) -> list[Row]:
    """A row per factor: Cramér's V (0 no association, 1 the factor decides) and p."""
    factors = [factor for factor in factors if factor != SEED]
    judged = _judged(rows)
    tests = []
    for factor in factors:
        others = [other for other in factors if other != factor]
        levels, a = np.unique([str(row[factor]) for row in judged], return_inverse=True)
        mechanisms, b = np.unique([row["verdict"] for row in judged], return_inverse=True)
        if len(levels) < 2:
            continue
        strata = [tuple(row[other] for other in others) for row in judged]
        v, p = _permutation_test(a, b, _groups(strata), seed)
        tests.append(
            {
                "factor": factor,
                "levels": len(levels),
                "mechanisms": len(mechanisms),
                "cells": len(judged),
                "cramers_v": v,
                "p": p,
            }
        )
    return tests


def _judged(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["state"] == FINISHED and row["verdict"] is not None]


def _groups(strata: Sequence[tuple[Any, ...]]) -> list[np.ndarray]:
    numbers = {key: number for number, key in enumerate(dict.fromkeys(strata))}
    stratum = np.array([numbers[key] for key in strata])
    return [np.flatnonzero(stratum == number) for number in range(len(numbers))]


def _permutation_test(
    a: np.ndarray, b: np.ndarray, groups: list[np.ndarray], seed: int
) -> tuple[float, float]:
    """(Cramér's V, p) of two label columns [n], b shuffled within groups."""
    rng = np.random.default_rng(seed)
    measured = _pearson(a, b)
    smaller = min(a.max(), b.max())
    if smaller == 0:
        return 0.0, 1.0  # all learned the same
    as_large = 0
    for _ in range(SHUFFLES):
        shuffled = b.copy()
        for group in groups:
            shuffled[group] = rng.permutation(b[group])
        as_large += _pearson(a, shuffled) >= measured - 1e-9
    v = float(np.sqrt(measured / (len(a) * smaller)))
    return v, (as_large + 1) / (SHUFFLES + 1)


def _pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's chi-squared of the table of two label columns."""
    width = int(b.max()) + 1
    table = np.bincount(a * width + b, minlength=(int(a.max()) + 1) * width).reshape(-1, width)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / len(a)
    return float(((table - expected) ** 2 / expected).sum())
