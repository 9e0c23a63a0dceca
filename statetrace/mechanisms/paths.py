"""Fronts: the progress of an algorithm after each layer, and the best such path through a grid.

Under prefix patching and under probing by length every algorithm shows a step function in each row,
whose step, the *front*, moves from 1 to the whole length T. The algorithms differ in which fronts
may follow each other:

- *counted*: 1, then T: nothing in between (the parallel algorithm; parity where it comes first);
- *one by one*: each layer moves the front by one at most (the sequential algorithm);
- *composed*: it grows by a factor and passes at least one front between 1 and T (association). The
  programs double; trained models compose more than two pieces in a layer, or pieces that overlap,
  so any factor from `GROWTH` to `FAN_IN` is allowed, and the last step to T may be of any size.

- *along* given fronts, none left out: the doubling program at a length that is not a power of two
  has fronts that wait and then leap (1, 2, 4, 4, 4, 4, 36, 100), and they are exact.

Layers in which nothing happens are free anywhere. Given the cost of every front in every
row, `best` finds the cheapest allowed path by dynamic programming.

Cost: rows x T^2 additions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Allowed = NDArray[np.bool_]

GROWTH = 1.25
"""A composing layer multiplies the front by more than this. The sequential algorithm grows by less
from front 4 on; a trained associative model at length 32 went 17, 22, 28, 32, by 1.27 at least."""

FAN_IN = 4
"""Pieces a layer composes at most: twice the programs' two; trained models composed up to 2.4."""


def counted(length: int) -> Allowed:
    """[T, T]: front i + 1 may be followed by j + 1."""
    allowed = np.zeros((length, length), dtype=np.bool_)
    allowed[0, 0] = allowed[0, -1] = allowed[-1, -1] = True
    return allowed


def one_by_one(length: int) -> Allowed:
    front = np.arange(1, length + 1)
    grown = front[None] - front[:, None]
    return (grown == 0) | (grown == 1)


def composed(length: int) -> Allowed:
    front = np.arange(1, length + 1)
    before, after = front[:, None], front[None]
    grows = (after > GROWTH * before) & (after <= FAN_IN * before)
    arrives = (after == length) & (before > 1)  # from 1 to T at once is counting
    return (after == before) | grows | (arrives if length > 2 else after == length)


def best(costs: Array, allowed: Allowed) -> float:
    """The mean over rows of the cheapest path's costs [rows, T], column i for front i + 1. The path
    begins at front 1 and need not arrive."""
    total = np.full(costs.shape[1], np.inf)
    total[0] = costs[0, 0]
    for row in costs[1:]:
        total = np.where(allowed, total[:, None], np.inf).min(axis=0) + row  # [from, to]
    return float(total.min()) / len(costs)


def doubling(length: int) -> list[int]:
    """The fronts of the associative program under prefix patching: after layer l the last token
    depends on every 2^l-th one before it, and the first of these holds the first action."""
    layers = (length - 1).bit_length()
    return [(length - 1) % 2**layer + 1 for layer in range(layers + 1)]


def along(costs: Array, fronts: list[int]) -> float:
    """The mean cost of the best path that visits these fronts in turn, each for a row at least; it
    need not arrive."""
    return aligned(costs[:, np.array(fronts) - 1])


def aligned(costs: Array) -> float:
    """The mean cost of the best monotone alignment of a model's rows with predicted ones, costs
    [rows, predicted]: it begins with the first predicted row, leaves none out, and need not
    arrive."""
    total = np.full(costs.shape[1], np.inf)
    total[0] = costs[0, 0]
    for row in costs[1:]:
        total = np.minimum(total, np.concatenate([[np.inf], total[:-1]])) + row
    return float(total.min()) / len(costs)
