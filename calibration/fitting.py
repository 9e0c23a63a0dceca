"""Fit the weights of the verdict, and measure how far its confidence can be trusted.

There are fourteen weights: a bias and slopes for each of the properties that `MechanismMap` weighs.
They are fitted by maximum likelihood on models whose label is known. A penalty keeps them near
their first guess: models with a label are separable, which alone would make some weights infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from calibration.measuring import Row, group_of, links, read
from statetrace.mechanisms.mechanism_map import MIXED, OTHER, MechanismMap, Weights, possible

FIRST_GUESS = {
    "own_bias": -2.0,
    "gap": 5.0,
    "kept": 4.0,
    "growth": 8.0,
    "growth_middle": 0.4,
    "quotient_middle": 0.4,
    "blur": 1.0,
    "linear": 3.0,
    "linear_bias": 0.0,
    "steep": 4.0,
    "split": 15.0,
    "split_middle": 0.4,
    "misfit": 2.0,
    "misfit_middle": 1.0,
}
BIASES = {"own_bias", "linear_bias"}
"""Added to their first guess; the others are multiplied."""

SPREAD = float(np.log(2))
"""Standard deviation of a weight: a factor of 2."""

ITERATIONS = 60
UNDECIDED, UNLEARNED = "undecided", "unlearned"


def labeled(rows: Sequence[Row]) -> list[Row]:
    """Rows of models that have learned the task and whose algorithm is known."""
    return [
        row
        for row in rows
        if row["links"] is not None and row["label"] not in (UNDECIDED, UNLEARNED)
    ]


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """The weights for which the labels are most likely, given the penalty."""
    known = [(links(row), row["kept"], group_of(row), row["label"]) for row in labeled(rows)]
    lapse = round(3.0 / max(len(known), 3), 4)  # the rule of three

    def loss(x: Any) -> float:
        weights, total = _weights(x, lapse), float(x @ x) / (2 * SPREAD**2)
        for chain, kept, group, label in known:
            shares = MechanismMap.of(chain, kept, weights).probabilities(group, weights)
            total -= float(np.log(max(shares.get(label, 0.0), 1e-9)))
        return total

    start = np.zeros(len(FIRST_GUESS))
    solution = minimize(loss, start, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    return {name: round(value, 4) for name, value in _weights(solution.x, lapse).items()}


def _weights(x: Any, lapse: float) -> dict[str, float]:
    weights = {
        name: first + float(value) if name in BIASES else first * float(np.exp(value))
        for (name, first), value in zip(FIRST_GUESS.items(), x, strict=True)
    }
    return weights | {"lapse": lapse}


def candidates(row: Row, weights: Weights | None = None) -> tuple[str, ...]:
    """The mechanisms that a verdict names: one, or several if it is undecided."""
    if row["links"] is None:
        return (UNLEARNED,)
    return possible(read(row, weights).probabilities(group_of(row), weights))


def judge(row: Row, weights: Weights | None = None) -> tuple[str, float]:
    """The most probable mechanism of one measured model, and its probability."""
    if row["links"] is None:
        return UNLEARNED, 1.0
    shares = read(row, weights).probabilities(group_of(row), weights)
    best = max(shares, key=lambda name: shares[name])
    return best, shares[best]


SURE = 0.95
EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Of the bins of confidence; most models are at the upper end."""


def quality(rows: Sequence[Row], weights: Weights | None = None) -> dict[str, Any]:
    """Accuracy and calibration on rows with labels."""
    verdicts = [judge(row, weights) for row in rows]
    right = [name == row["label"] for (name, _), row in zip(verdicts, rows, strict=True)]
    correct = np.array(right, dtype=bool)
    confidence = np.array([confidence for _, confidence in verdicts])
    sure = confidence > SURE
    names = [candidates(row, weights) for row in rows]
    decided = np.array([len(each) == 1 for each in names], dtype=bool)
    among = np.array([row["label"] in each for each, row in zip(names, rows, strict=True)], bool)
    bins = np.clip(np.searchsorted(EDGES, confidence, side="right") - 1, 0, len(EDGES) - 2)
    table = [
        {
            "from": EDGES[b],
            "to": EDGES[b + 1],
            "models": int((bins == b).sum()),
            "correct": int(correct[bins == b].sum()),
            "confidence": round(float(confidence[bins == b].mean()), 3),
        }
        for b in np.unique(bins)
    ]
    error = sum(abs(row["correct"] - row["confidence"] * row["models"]) for row in table)
    none = np.array([row["label"] in (MIXED, OTHER) for row in rows], dtype=bool)
    named = np.array([name not in (MIXED, OTHER) for name, _ in verdicts], dtype=bool)
    fast = [(row["fast"], name) for row, (name, _) in zip(rows, verdicts, strict=True)]
    told = [(early, name) for early, name in fast if early not in (UNDECIDED, UNLEARNED)]
    return {
        "models": len(rows),
        "right": round(float(correct.mean()), 6) if rows else None,
        "named": [int((correct & decided).sum()), int(decided.sum())],
        "undecided": [int((among & ~decided).sum()), int((~decided).sum())],
        "confidence": round(float(confidence.mean()), 4) if rows else None,
        "calibration_error": round(error / len(rows), 4) if rows else None,
        "wrong_above_0.95": [int((~correct & sure).sum()), int(sure.sum())],
        "none_named_above_0.9": [int((none & named & (confidence > 0.9)).sum()), int(none.sum())],
        "bins": table,
        "fast_told": len(told),
        "fast_agrees": float(np.mean([a == b for a, b in told])) if told else None,
    }
