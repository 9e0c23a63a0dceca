"""How often each mechanism was learned, and which factors that depends on (section 5.2).

Shares come with Wilson intervals. Each factor is tested by shuffling: if it did not matter, cells
that agree in everything else could exchange their levels of it, so the verdicts are shuffled within
such groups, and Pearson's statistic of the table (level x mechanism) is compared with what that
gives.
Data orders are no factor; cells that differ only in them are the repetitions.

Cost: SHUFFLES shuffles of a column per factor, a second for a thousand cells. Needs no torch.
Caveat: without repetitions, or with one level per group, nothing can be exchanged and p is 1. The
tests are one per factor and not corrected for their number.
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


def proportions(
    rows: Sequence[Row], factors: Sequence[str], verdict: str = "verdict"
) -> list[dict[str, Any]]:
    """One row per combination of levels and mechanism, with the share of cells that learned it."""
    factors = [factor for factor in factors if factor != SEED]
    judged = _judged(rows, verdict)
    mechanisms = sorted({one[verdict] for one in judged})
    found = []
    for levels in dict.fromkeys(tuple(one[f] for f in factors) for one in judged):
        here = [one for one in judged if tuple(one[f] for f in factors) == levels]
        for mechanism in mechanisms:
            count = sum(one[verdict] == mechanism for one in here)
            low, high = wilson(np.array(count), len(here))
            found.append(
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
    return found


def associations(
    rows: Sequence[Row], factors: Sequence[str], verdict: str = "verdict", seed: int = 0
) -> list[dict[str, Any]]:
    """One row per factor: Cramér's V (0 no association, 1 the factor decides) and p."""
    factors = [factor for factor in factors if factor != SEED]
    judged = _judged(rows, verdict)
    found = []
    for factor in factors:
        others = [one for one in factors if one != factor]
        levels, a = np.unique([str(one[factor]) for one in judged], return_inverse=True)
        mechanisms, b = np.unique([one[verdict] for one in judged], return_inverse=True)
        if len(levels) < 2:
            continue
        strata = [tuple(one[other] for other in others) for one in judged]
        v, p = _shuffled(a, b, _groups(strata), seed)
        found.append(
            {
                "factor": factor,
                "levels": len(levels),
                "mechanisms": len(mechanisms),
                "cells": len(judged),
                "cramers_v": v,
                "p": p,
            }
        )
    return found


def _judged(rows: Sequence[Row], verdict: str) -> list[Row]:
    return [one for one in rows if one["state"] == FINISHED and one[verdict] is not None]


def _groups(strata: Sequence[tuple[Any, ...]]) -> list[np.ndarray]:
    numbers = {key: number for number, key in enumerate(dict.fromkeys(strata))}
    of = np.array([numbers[key] for key in strata])
    return [np.flatnonzero(of == number) for number in range(len(numbers))]


def _shuffled(
    a: np.ndarray, b: np.ndarray, groups: list[np.ndarray], seed: int
) -> tuple[float, float]:
    """(Cramér's V, p) of two label columns [n], b shuffled within groups."""
    rng = np.random.default_rng(seed)
    measured = _pearson(a, b)
    smaller = min(a.max(), b.max())
    if smaller == 0:
        return 0.0, 1.0  # all learned the same
    again = 0
    for _ in range(SHUFFLES):
        shuffled = b.copy()
        for group in groups:
            shuffled[group] = rng.permutation(b[group])
        again += _pearson(a, shuffled) >= measured - 1e-9
    v = float(np.sqrt(measured / (len(a) * smaller)))
    return v, (again + 1) / (SHUFFLES + 1)


def _pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's chi-squared of the table of two label columns."""
    width = int(b.max()) + 1
    table = np.bincount(a * width + b, minlength=(int(a.max()) + 1) * width).reshape(-1, width)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / len(a)
    return float(((table - expected) ** 2 / expected).sum())
