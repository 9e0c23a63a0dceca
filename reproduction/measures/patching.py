"""Numbers from patching and depth of one model: what the answer depends on (section 4.2).

Layers are counted as everywhere: 0 is the embedding, l the output of block l.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from reproduction.measured import Measure, Measured, of_deviation, share_of
from reproduction.measures.heat_maps import HALF, Array
from reproduction.model_selection import looked_at, of_best
from reproduction.results import Missing, Results, lens_file, lens_files
from statetrace.lenses.parts.intervals import quantile
from statetrace.lenses.result import pivot


def grid(
    found: Results, model: str, where: str, split: str = "all", column: str = "mean"
) -> tuple[Array, int]:
    """A patching map of NLD [layers, positions], and the number of pairs."""
    table = [
        row
        for row in found.table(lens_file(model, "patching"))
        if (row["where"], row["split"], row["metric"]) == (where, split, "nld")
    ]
    if not table or not table[0]["n"]:  # a model that hardly learned answers both of a pair alike
        raise Missing(f"of '{model}' there is no {where} map of {split} pairs")
    # results/ holds maps of the residual stream only
    rows = [{"kind": "resid", "head": None, column: None} | row for row in table]
    return pivot(pa.Table.from_pylist(rows), column), int(table[0]["n"])


def _errors(found: Results, model: str, split: str = "all") -> Array:
    """Half of the 95% interval of every cell's mean in the prefix map."""
    spread, n = grid(found, model, "prefix", split, "std")
    return np.asarray(quantile() * spread / np.sqrt(n))


def _end_maps(found: Results, model: str, where: str, split: str) -> tuple[Array, Array] | None:
    """A map with all cells at the lower and at the upper ends of their intervals: of means for
    prefixes, else of medians; None where no intervals of medians were kept."""
    if where == "prefix":
        cells, off = grid(found, model, where, split)[0], _errors(found, model, split)
        return cells - off, cells + off
    low, high = (grid(found, model, where, split, f"median_{end}")[0] for end in ("low", "high"))
    return None if np.isnan([low, high]).all() else (low, high)


@of_best
def of_grid(
    model: str, where: str, split: str, number: Callable[[Array], tuple[float, str]], unit: str = ""
) -> Measure:
    """A number of one patching map; `number` returns it with words. Deletion is judged by medians:
    it divides by how clear an answer was, and one pair in 200 can rule a mean. The interval is that
    of the map with all cells at the lower, or the upper, ends of theirs; of medians it is there
    where these were kept with intervals."""
    means = where == "prefix"

    def measure(found: Results) -> Measured:
        cells, n = grid(found, model, where, split, "mean" if means else "median")
        value, words = number(cells)
        ends: tuple[float | None, float | None] = None, None
        if (maps := _end_maps(found, model, where, split)) is not None:
            moved = [value, *(number(one)[0] for one in maps)]
            ends = min(moved), max(moved)
        return Measured(
            value,
            n,
            pairs_of(found, model, split),
            *ends,
            unit,
            words,
            lens_files(model, "patching"),
        )

    return measure


def left_out(found: Results, model: str) -> tuple[int, int]:
    """Pairs of which a model answers both sequences alike, so that NLD would be 0/0, and how many
    pairs it was asked; (0, 0) where that was not kept."""
    file = lens_file(model, "patching", "json")
    about = found.json(file)["summary"] if found.exists(file) else {}
    return about.get("pairs_left_out", 0), about.get("pairs_asked", 0)


def pairs_of(found: Results, model: str, split: str = "all") -> str:
    """What maps are counted over: "pairs", or "of 200 pairs" where some were left out."""
    without, asked = left_out(found, model)
    return f"of {asked} pairs" if without and split == "all" else "pairs"


@of_best
def alone(model: str, late: bool) -> Measure:
    """Of single actions but the last, the share that change the answer if deleted: at the
    embedding, or `late`, in the deepest quarter of the layers but for the last of all, from which
    the answer is read. By medians, as all deletions."""

    def measure(found: Results) -> Measured:
        cells, pairs = grid(found, model, "window", "all", "median")
        last = len(cells) - 1
        here = range(-(-3 * last // 4), last) if late else range(1)
        counts = [int((np.abs(cells[layer, :-1]) >= HALF).sum()) for layer in here]
        said = f"layers {here[0]} to {here[-1]} of {last}" if late else f"layer 0 of {last}"
        return share_of(sum(counts), len(here) * (cells.shape[1] - 1), "cells",
                        lens_files(model, "patching"), f"{said}, {pairs} pairs")  # fmt: skip

    return measure


@of_best
def plateau(model: str, split: str = "all") -> Measure:
    """Mean NLD of such pairs where same-parity ones are settled and opposite-parity ones are
    not."""

    def measure(found: Results) -> Measured:
        same, opposite = _settled(found, model)
        return _mean_of(found, model, split, same & ~opposite)

    return measure


@of_best
def restored(model: str) -> Measure:
    """Mean NLD over all pairs where those of either parity are settled. Layer 0 and the prefix that
    is the whole sequence do not count: there it is 1 in any model."""

    def measure(found: Results) -> Measured:
        same, opposite = _settled(found, model)
        here = same & opposite
        here[0], here[:, -1] = False, False
        return _mean_of(found, model, "all", here)

    return measure


def _settled(found: Results, model: str) -> tuple[Array, Array]:
    """Where pairs of the same parity are settled, and where those of opposite parity are."""
    same, opposite = (
        grid(found, model, "prefix", f"{kind} parity")[0] for kind in ("same", "opposite")
    )
    return same >= HALF, opposite >= HALF


def _mean_of(found: Results, model: str, split: str, here: Array) -> Measured:
    """The mean of some cells of the prefix map; the interval is the widest that theirs allow."""
    cells, n = grid(found, model, "prefix", split)
    sources, of = lens_files(model, "patching"), pairs_of(found, model, split)
    words = f"over {int(here.sum())} cells"
    if split == "all":
        words += (
            f"; {grid(found, model, 'prefix', 'same parity')[1]} of {n} pairs have the same parity"
        )
    if not here.any():
        return Measured(None, n, of, words=words, sources=sources)
    value, off = float(cells[here].mean()), float(_errors(found, model, split)[here].mean())
    return Measured(value, n, of, value - off, value + off, words=words, sources=sources)


@of_best
def apart(model: str) -> Measure:
    """Mean distance of same- and opposite-parity maps, where either depends on the prefix."""

    def measure(found: Results) -> Measured:
        same, _ = grid(found, model, "prefix", "same parity")
        opposite, n = grid(found, model, "prefix", "opposite parity")
        value = float(np.abs(same - opposite)[1:-1, :-1].mean())
        errors = [_errors(found, model, f"{kind} parity") for kind in ("same", "opposite")]
        off = float(np.hypot(*errors)[1:-1, :-1].mean())
        words = "mean distance in NLD between the two maps, inner layers"
        return Measured(value, n, "pairs", max(0.0, value - off), value + off, words=words,
                        sources=lens_files(model, "patching"))  # fmt: skip

    return measure


@of_best
def deviation(model: str, split: str) -> Measure:
    """Mean standard deviation over pairs of the prefix map's cells."""

    def measure(found: Results) -> Measured:
        cells, n = grid(found, model, "prefix", split, "std")
        words = f"largest of {cells.size} cells {cells.max():.2f}"
        without, asked = left_out(found, model)
        words += f"; {without} of {asked} pairs left out" if without else ""
        value = float(cells.mean())
        low, high = of_deviation(value, n)
        return Measured(
            value, n, "pairs", low, high, words=words, sources=lens_files(model, "patching")
        )

    return measure


@of_best
def depth_needed(model: str, split: str) -> Measure:
    """By how many layers the answer moves deeper from the shortest sequences to the length that
    needs most, among lengths that other lenses looked at. The interval is the widest that those of
    all layers allow: over pairs, layers go together."""

    def measure(found: Results) -> Measured:
        most = looked_at(found, model) or np.inf
        rows = [
            row
            for row in found.table(lens_file(model, "depth"))
            if row["split"] == split and row["length"] <= most and row["mean"] is not None
        ]
        needed, least, most_needed = (
            {
                length: sum(
                    row["mean"] if row[column] is None else row[column]  # of one pair no interval
                    for row in rows
                    if row["length"] == length
                )
                for length in sorted({row["length"] for row in rows})
            }
            for column in ("mean", "low", "high")
        )
        layers = list(needed.values())
        if len(layers) < 2:
            return Measured(None, words="too few lengths", sources=lens_files(model, "depth"))
        words = ", ".join(f"{layer:.1f} at length {n}" for n, layer in needed.items())
        pairs = sum(row["n"] for row in rows if row["layer"] == 0)
        deepest, shortest = max(needed, key=lambda n: needed[n]), min(needed)
        return Measured(max(layers) - layers[0], pairs, "pairs",
                        max(0.0, least[deepest] - most_needed[shortest]),
                        most_needed[deepest] - least[shortest], "layers", words,
                        lens_files(model, "depth"))  # fmt: skip

    return measure
