"""The distance of each lens's measurement from what each algorithm predicts, at this depth and
length.

Patching: row by row, the restored share as a function of the prefix, against step functions along
the best path of fronts the algorithm allows (paths.py); same- and opposite-parity pairs together
(sequential, associative: one path for both) or apart (parallel, parity-associative).

Probing: the same along lengths: up to the front the state is known, beyond it the probe guesses,
among all states or, where parity is known, among those of that parity. In a sequential or
associative model parity is readable at most where the state is; in the others it is counted.

Prefixes and lengths are weighted half evenly and half by their logarithm: fronts that double are
evenly spaced on a logarithmic scale, while the paper's figures use the even scale.

Depth: the number of layers an answer needs as a function of the length: constant, logarithmic or
linear, for pairs of the same and of opposite parity together or apart.

Registered algorithms are compared with their own signatures (registered.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.paths import (
    Allowed,
    along,
    best,
    composed,
    counted,
    doubling,
    one_by_one,
)

Array = NDArray[np.float64]

ERRORS = 20
"""Wrong answers needed to estimate in how many parity is correct: with 20 the share has a standard
error of 0.11 at most."""

HEAD = 30.0
"""Points above chance of a clear parity head: those of trained models had 28 to 34."""

LOST = 0.25
"""Parity accuracy lost without a head that is needed: half of the maximum."""


def patching(evidence: Evidence) -> dict[str, float]:
    """Distance of the prefix grids to each algorithm's best path."""
    grids = evidence.restored
    if not grids:
        return {}
    return _all(evidence, {split: _step_costs(grid) for split, grid in grids.items()})


def _all(evidence: Evidence, costs: Mapping[str, Array]) -> dict[str, float]:
    """Each algorithm's best path through costs [rows, fronts] of one or two splits."""
    length = next(iter(costs.values())).shape[1]
    together = np.mean(list(costs.values()), axis=0)
    distance = {
        "sequential": best(together, one_by_one(length)),
        "associative": _composed(together),
        "parallel": float(np.mean([best(cost, counted(length)) for cost in costs.values()])),
    }
    if evidence.quotient is not None and len(costs) == 2:
        at_once = best(costs["opposite"], counted(length))
        distance["parity-associative"] = (_composed(costs["same"]) + at_once) / 2
    return distance


def _composed(costs: Array) -> float:
    """As the program composes, or as trained models do."""
    length = costs.shape[1]
    return min(best(costs, composed(length)), along(costs, doubling(length)))


def _step_costs(grid: Array) -> Array:
    """[rows, T]: distance of each row to the step function of each front. The last column, the
    whole prefix, is 1 by definition and left out."""
    length = grid.shape[1]
    by_prefix = weights(np.arange(1, length), np.arange(2, length + 1))
    restored = np.arange(length - 1) >= np.arange(length)[:, None]  # [front, column]
    return np.abs(grid[:, None, :-1] - restored[None]) @ by_prefix


def weights(low: NDArray[np.int64] | Array, high: NDArray[np.int64] | Array) -> Array:
    """Weights of the intervals from low to high: half evenly, half by their logarithm."""
    even = (high - low) / (high - low).sum()
    log = np.log(high / low)
    mean: Array = (even + log / log.sum()) / 2
    return mean


def length_weights(lengths: Array) -> Array:
    """Weights of the lengths that were probed, each for the interval since the one before it."""
    edges = np.concatenate([[max(lengths[0] - 1, 1)], lengths])
    return weights(edges[:-1], np.maximum(edges[1:], edges[:-1] + 0.5))


def probing(evidence: Evidence) -> dict[str, float]:
    """Distance of the probe curves by length to each algorithm's best path."""
    if evidence.state is None:
        return {}
    lengths = evidence.lengths
    whole = int(lengths[-1])
    by_length = length_weights(lengths)
    known = lengths[None] <= np.arange(1, whole + 1)[:, None]  # [front, n]
    state = knowledge(evidence.state, evidence.order)
    free = np.abs(state[:, None] - known[None]) @ by_length  # [rows, front]
    if evidence.parity is None:
        laws = {"sequential": one_by_one, "associative": composed, "parallel": counted}
        return {name: best(free, law(whole)) for name, law in laws.items()}
    parity = knowledge(evidence.parity, evidence.order // evidence.unknown)
    # readable at most where the state is, so only parity beyond the front counts against it
    beyond = np.abs(parity[:, None] * ~known[None]) @ by_length
    guess = (1 / evidence.unknown - 1 / evidence.order) / (1 - 1 / evidence.order)
    after = np.abs(state[:, None] - np.where(known, 1.0, guess)[None]) @ by_length
    counted_parity = np.abs(parity - 1.0) @ by_length  # [rows]
    not_yet = np.abs(parity) @ by_length
    together = (free + beyond) / 2
    return {
        "sequential": best(together, one_by_one(whole)),
        "associative": best(together, composed(whole)),
        "parallel": _parity_first(free, after, not_yet, counted_parity, counted(whole)),
        "parity-associative": _parity_first(free, after, not_yet, counted_parity, composed(whole)),
    }


def _parity_first(
    free: Array, after: Array, not_yet: Array, counted_parity: Array, allowed: Allowed
) -> float:
    """Nothing is known up to some row, then parity; the state follows its own path."""
    rows = len(free)
    options = []
    for first in range(1, rows):
        before = np.arange(rows) < first
        costs = np.where(before[:, None], free, after)
        costs = (costs + np.where(before, not_yet, counted_parity)[:, None]) / 2
        options.append(best(costs, allowed))
    return min(options)


def knowledge(accuracy: Array, classes: int) -> Array:
    """0 for guessing, 1 for certainty."""
    chance = 1 / classes
    return np.clip((accuracy - chance) / (1 - chance), 0.0, 1.0)


def parity_apart(evidence: Evidence) -> float | None:
    """How often parity is correct where the state is wrong; None where that cannot be measured."""
    if evidence.quotient is None:
        return None
    state, parity = evidence.accuracy["state"], evidence.accuracy[evidence.quotient]
    sizes = (evidence.trained, evidence.sequences, evidence.order, evidence.unknown)
    return parity_kept(state, parity, *sizes)


def parity_kept(
    state: Array, parity: Array, trained: int, sequences: int, order: int, unknown: int
) -> float | None:
    """How often parity is correct where the state is wrong, from 0 (as often as for a random wrong
    state) to 1 (always). The cutoffs compare the same, but only at two lengths. None if there are
    too few errors.

    Beyond the training length both may fail only because those positions were never trained, so
    errors there count only if parity stays correct.

    Args:
        state, parity: accuracy by length, [longest].
        unknown: states of one parity.
    """
    by_luck = (unknown - 1) / (order - 1)

    def share(first: int, last: int) -> float | None:
        wrong = (1 - state[first:last]).sum()
        if wrong * sequences < ERRORS:
            return None
        apart = (parity[first:last] - state[first:last]).sum() / wrong
        return float(np.clip((apart - by_luck) / (1 - by_luck), 0.0, 1.0))

    within = share(0, trained)
    if within is not None:
        return within
    beyond = share(trained, len(state))
    return beyond if beyond is not None and beyond > 0.5 else None


def depth(evidence: Evidence) -> dict[str, float]:
    """Distance of the layers needed by length from each algorithm's law, in layers: constant for
    counting, at least log2 n up to some length for composing, linear in n for the sequential
    algorithm. Root mean square over lengths and splits; each law is charged for its free
    parameters, so that a flexible one gains nothing by fitting noise."""
    curves = {split: (1.0 - grid).sum(axis=0) for split, grid in evidence.settled.items()}  # [m]
    if not curves:
        return {}
    n = evidence.depths
    both = np.mean(list(curves.values()), axis=0)
    apart = {split: curve - both for split, curve in curves.items()}
    split = float(np.mean([np.mean(difference**2) for difference in apart.values()]))
    constant = {split: charged(float(np.var(curve)), curve, 1) for split, curve in curves.items()}
    squared = {
        "sequential": charged(line_misfit(n - 1, both, 1.0), both, 2) + split,
        "associative": _composed_misfit(n, both) + split,
        "parallel": float(np.mean(list(constant.values()))),
    }
    if evidence.quotient is not None and len(curves) == 2:
        composes = _composed_misfit(n, curves["same"])
        squared["parity-associative"] = (composes + constant["opposite"]) / 2
    return {name: float(np.sqrt(value)) for name, value in squared.items()}


def _composed_misfit(n: Array, curve: Array) -> float:
    """The best law a + b log2(min(n, m)) over lengths m, beyond which one layer composes all."""
    if len(n) < 2:
        return float(np.var(curve))
    laws = [np.log2(np.minimum(n, m)) for m in n[1:]]
    best_law = min(line_misfit(law, curve, 1.0 / (law[-1] - law[0])) for law in laws)
    return charged(best_law, curve, 3)


def charged(misfit: float, curve: Array, free: int) -> float:
    """Mean square per degree of freedom left by a law with `free` parameters."""
    return misfit * len(curve) / max(len(curve) - free, 1)


def line_misfit(x: Array, curve: Array, least: float) -> float:
    """Mean square residual of the best line through (x, curve) with at least that slope."""
    centred = x - x.mean()
    slope = max(float(centred @ curve) / max(float(centred @ centred), 1e-9), least)
    return float(np.var(curve - slope * centred))
