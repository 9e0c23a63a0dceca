"""Patching (section 4.2, appendix B): what the answer depends on, layer by layer.

Layer 0 is the embedding, layer l the output of block l. The released code draws same- and
opposite-parity pairs half and half, our lens does not; the split "balanced" weights the two maps
equally, which gives the same average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reproduction.lens_model import LensModel
from reproduction.measures.registry import each
from reproduction.statistics import Number, Z, deviation_interval, mean_share, share
from reproduction.tables import Missing

Array = np.ndarray
HALF = 0.5
PARITIES = ("same parity", "opposite parity")
PREFIX = "prefix-substitution-resid"


def grid(
    model: LensModel, where: str, split: str = "all", column: str = "mean"
) -> tuple[Array, int]:
    """A map of the normalized logit difference [layers, positions], and its number of pairs."""
    if split == "balanced":
        (same, n), (opposite, m) = (grid(model, where, part, column) for part in PARITIES)
        return (same + opposite) / 2, n + m
    chosen = {"where": where, "split": split, "metric": "nld"}
    counts = model.lens("patching").grid("n", **chosen)
    if not counts.size or not counts[0, 0]:
        raise Missing(f"'{model.folder}' has no {where} map of {split} pairs")
    return model.lens("patching").grid(column, **chosen), int(counts[0, 0])


def errors(model: LensModel, where: str, split: str) -> Array:
    """Half of the 95% interval of every cell's mean."""
    if split == "balanced":
        return np.hypot(*(errors(model, where, part) for part in PARITIES)) / 2
    spread, n = grid(model, where, split, "std")
    return np.asarray(Z * spread / np.sqrt(n))


def fronts(cells: Array) -> list[int]:
    """How many first actions must be restored for half of the answer, layer by layer."""
    enough = cells >= HALF
    return [int(row.argmax()) + 1 if row.any() else cells.shape[1] for row in enough]


def bend(values: Sequence[float]) -> float:
    """How counts grow from layer to layer, judged halfway between the last layer with the first
    count and the first with the largest: 1 for doubling, 0 for equal steps or a single step."""
    end = int(np.argmax(values))
    start = max(layer for layer in range(end + 1) if values[layer] <= values[0])
    first, last = values[start], values[end]
    halfway = float(np.interp((start + end) / 2, range(len(values)), values))
    doubling, steps = (first * last) ** 0.5, (first + last) / 2
    return (steps - halfway) / (steps - doubling) if steps > doubling else 0.0


def _of_map(
    model: LensModel, where: str, split: str, of_cells: Callable[[Array], float], detail: str = "",
    unit: str = "",
) -> Number:  # fmt: skip
    """A number of a map; its interval comes from the maps at the ends of all cells' intervals."""
    cells, n = grid(model, where, split)
    off = errors(model, where, split)
    values = [of_cells(cells), of_cells(cells - off), of_cells(cells + off)]
    return Number(values[0], n, "pairs", min(values), max(values), unit, detail)


@each("patching")
def front_bend(model: LensModel, split: str = "balanced") -> Number:
    """How the prefix that must be restored grows with depth: 1 by doubling, 0 by equal steps."""
    counts = " ".join(map(str, fronts(grid(model, "prefix", split)[0])))
    return _of_map(model, "prefix", split, lambda cells: bend(fronts(cells)), counts)


@each("patching")
def settled_depth(model: LensModel, split: str) -> Number:
    """The share of the depth after which only the whole sequence restores the answer."""

    def depth(cells: Array) -> float:
        return fronts(cells).index(cells.shape[1]) / (len(cells) - 1)

    return _of_map(model, "prefix", split, depth)


@each("patching")
def splits_apart(model: LensModel) -> Number:
    """Mean distance between the maps of same- and opposite-parity pairs, inner layers."""
    (same, _), (opposite, n) = (grid(model, "prefix", part) for part in PARITIES)
    off = np.hypot(*(errors(model, "prefix", part) for part in PARITIES))
    value, half = (float(x[1:-1, :-1].mean()) for x in (np.abs(same - opposite), off))
    return Number(value, n, "pairs", max(0.0, value - half), value + half)


@each("patching")
def plateau(model: LensModel, region: str) -> Number:
    """Mean restoration in a region: "half" where same-parity pairs are restored and opposite-parity
    pairs are not, "whole" where both are, layer 0 and the whole sequence aside."""
    same, opposite = (grid(model, "prefix", part)[0] >= HALF for part in PARITIES)
    here = same & ~opposite if region == "half" else same & opposite
    if region == "whole":
        here[0], here[:, -1] = False, False
    if not here.any():
        raise Missing(f"'{model.folder}' has no such region")
    cells, n = grid(model, "prefix", "balanced")
    value = float(cells[here].mean())
    off = float(errors(model, "prefix", "balanced")[here].mean())
    return Number(value, n, "pairs", value - off, value + off, detail=f"{int(here.sum())} cells")


@each("patching")
def deviation(model: LensModel, split: str) -> Number:
    """Mean over cells of the standard deviation over pairs (prefix map)."""
    cells, n = grid(model, "prefix", split, "std")
    value = float(cells.mean())
    return Number(value, n, "pairs", *deviation_interval(value, n))


@each("depth")
def added_layers(model: LensModel, split: str) -> Number:
    """By how many layers the answer moves deeper from the shortest length to the one that needs
    most, among analyzed lengths."""
    longest = model.analyzed_length or np.inf
    rows = [
        row
        for row in model.table("depth")
        if row["split"] == split and row["length"] <= longest and row["mean"] is not None
    ]
    needed: dict[str, dict[int, float]] = {"mean": {}, "low": {}, "high": {}}
    for row in rows:
        for column, sums in needed.items():
            value = row["mean"] if row[column] is None else row[column]
            sums[row["length"]] = sums.get(row["length"], 0.0) + value
    if len(needed["mean"]) < 2:
        raise Missing(f"'{model.folder}' was analyzed at too few lengths")
    shortest, deepest = min(needed["mean"]), max(needed["mean"], key=lambda n: needed["mean"][n])
    pairs = sum(row["n"] for row in rows if row["layer"] == 0)
    return Number(
        needed["mean"][deepest] - needed["mean"][shortest], pairs, "pairs",
        max(0.0, needed["low"][deepest] - needed["high"][shortest]),
        needed["high"][deepest] - needed["low"][shortest], "layers",
    )  # fmt: skip


@each("patching")
def suffix_bend(model: LensModel) -> Number:
    """How the suffix that can be deleted grows with depth, as in `front_bend`."""
    cells, n = grid(model, "suffix", "all")
    counts = []
    for row in np.abs(cells):
        noticed = row[::-1] >= HALF
        counts.append(int(noticed.argmax()) if noticed.any() else len(row))
    return Number(bend([1 + count for count in counts]), n, "pairs",
                  detail=" ".join(map(str, counts)))  # fmt: skip


@each("patching")
def thinning_layers(model: LensModel) -> Number:
    """Layers in which single actions still matter, and fewer of them than one layer before."""
    cells, n = grid(model, "window", "all")
    counts = (np.abs(cells[:, :-1]) >= HALF).sum(1)
    value = int(((counts[1:] > 0) & (np.diff(counts) < 0)).sum())
    return Number(value, n, "pairs", unit="layers", detail=" ".join(map(str, counts)))


@each("patching")
def late_single_actions(model: LensModel) -> Number:
    """The share of single actions whose deletion changes the answer, in the deepest quarter of the
    layers. The last action and the last layer do not count."""
    cells, _ = grid(model, "window", "all")
    last = len(cells) - 1
    layers = range(-(-3 * last // 4), last)
    count = sum(int((np.abs(cells[layer, :-1]) >= HALF).sum()) for layer in layers)
    return share(count, len(layers) * (cells.shape[1] - 1), "cells")


@each("patching")
def patched_parity(model: LensModel, when: str) -> Number:
    """The probability that the answer has the expected parity where a prefix is restored in pairs
    of opposite parity: the clean one in layers `before` parity is settled, embedding aside, the
    corrupted one in that layer and `after` it."""
    opposite = grid(model, "prefix", "opposite parity")[0]
    settled = fronts(opposite).index(opposite.shape[1])
    layers = range(1, settled) if when == "before" else range(settled, len(opposite))
    if not layers:
        raise Missing(f"'{model.folder}' settles parity in layer {settled}")
    arrays, parity = model.lens("patching").arrays, model.group.parity
    if f"{PREFIX}.logits" not in arrays or parity is None:
        raise Missing(f"'{model.folder}' has no logits of patched answers")
    clean, corrupted = (parity[arrays[f"{run}_state"]] for run in ("clean", "corrupted"))
    pairs = np.flatnonzero(clean != corrupted)
    logits = arrays[f"{PREFIX}.logits"][list(layers), :-1][:, :, pairs].astype(float)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    odd = (weights * parity).sum(-1) / weights.sum(-1)  # [layers, positions, pairs]
    expected = (clean if when == "before" else corrupted)[pairs]
    by_pair = np.where(expected == 1, odd, 1 - odd).mean((0, 1))
    return mean_share(by_pair, "pairs", detail=f"layers {layers[0]} to {layers[-1]}")
