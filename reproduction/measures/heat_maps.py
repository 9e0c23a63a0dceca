"""Numbers of one patching map, [layers, positions] of NLD: each comes with words that say more.

"Settled" means that half of the logit difference follows (NLD 0.5). Layer 0 is the embedding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
HALF = 0.5


def fronts(cells: Array) -> list[int]:
    """Actions that have to be restored for half of the answer, layer by layer; all if none do."""
    enough = cells >= HALF
    return [int(row.argmax()) + 1 if row.any() else cells.shape[1] for row in enough]


def halfway(values: Sequence[float]) -> tuple[float, float, float]:
    """Of numbers that grow layer by layer, from the last layer that has the first one to the first
    that has the largest: the number half-way, what doubling would have there (the geometric mean of
    both ends), and what equal steps would (the arithmetic one)."""
    end = int(np.argmax(values))
    start = max(layer for layer in range(end + 1) if values[layer] <= values[0])
    first, last = values[start], values[end]
    half = float(np.interp((start + end) / 2, range(len(values)), values))
    return half, (first * last) ** 0.5, (first + last) / 2


def bend(values: Sequence[float]) -> float:
    """1 for numbers that double layer by layer, 0 for those that grow by equal steps, in a single
    step, or not at all; below 0 where steps become smaller."""
    half, doubling, steps = halfway(values)
    return (steps - half) / (steps - doubling) if steps > doubling else 0.0


def front_bend(cells: Array) -> tuple[float, str]:
    """How what must be restored grows from layer to layer: 1 by doubling, 0 by equal steps."""
    found = fronts(cells)
    half, doubling, steps = halfway(found)
    said = f"half-way {half:.3g}, by doubling {doubling:.3g}, by equal steps {steps:.3g}"
    return bend(found), f"{_restored(found)}; {said}"


def _restored(found: list[int]) -> str:
    return f"actions to restore, layer by layer: {' '.join(map(str, found))}"


def largest_leap(cells: Array) -> tuple[float, str]:
    """The largest share of the sequence that one layer adds to what must be restored: a half where
    pieces are doubled, nearly all where everything is done at once."""
    found = fronts(cells)
    return float(max(np.diff(found)) / cells.shape[1]), _restored(found)


def settled_depth(cells: Array) -> tuple[float, str]:
    """Share of the depth after which no part of the sequence but all of it counts."""
    found = fronts(cells)
    layer = next(i for i, front in enumerate(found) if front == cells.shape[1])
    return layer / (len(found) - 1), f"layer {layer} of {len(found) - 1}"


def ignored_suffix(cells: Array) -> tuple[float, str]:
    """Share of the sequence whose deletion goes unnoticed one layer before the last."""
    counts = []
    for row in np.abs(cells):
        noticed = row[::-1] >= HALF
        counts.append(int(noticed.argmax()) if noticed.any() else len(row))
    said = " ".join(map(str, counts))
    return counts[-2] / cells.shape[1], f"last actions that can be deleted, by layer: {said}"


def thinning_layers(cells: Array) -> tuple[float, str]:
    """Layers in which some single actions count, and fewer than one layer before: every layer but
    the first and the last where the ones that count are twice as far apart each time."""
    counts = (np.abs(cells[:, :-1]) >= HALF).sum(1)
    said = " ".join(map(str, counts))
    words = f"single actions that count, of {cells.shape[1] - 1}, by layer: {said}"
    return int(((counts[1:] > 0) & (np.diff(counts) < 0)).sum()), words
