"""Numbers from models that read sentences, taken together (appendix E)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reproduction.measured import Measure, Measured, share_of
from reproduction.measures.heat_maps import bend, front_bend
from reproduction.measures.patching import grid, of_grid
from reproduction.measures.probing import (
    OVER_SEQUENCES,
    curve,
    deeper_half,
    percent_by_layer,
)
from reproduction.model_selection import sized
from reproduction.results import Missing, Results, lens_file


def mean_of_folders(
    prefix: str, lens: str, number: Callable[[Results, str], Measured], unit: str = ""
) -> Measure:
    """The mean of a number over all models whose folders begin so. The interval is the mean of
    theirs: over the sequences or pairs that each was asked, not over models."""

    def measure(found: Results) -> Measured:
        names = [name for name in found.folders(prefix) if found.exists(lens_file(name, lens))]
        if not names:
            raise Missing(f"no folder of results/ that begins with '{prefix}' has {lens}")
        each = [number(found, name) for name in names]
        ends = np.array([[one.value, one.low, one.high] for one in each], dtype=float)
        value, low, high = ends.mean(axis=0).tolist()
        made = Measured(value, len(names), "models", low, high, unit,
                        f"{OVER_SEQUENCES}; " + "; ".join(one.words for one in each),
                        tuple(lens_file(name, lens) for name in names))  # fmt: skip
        return sized(found, made, names)

    return measure


def bend_of(found: Results, name: str) -> Measured:
    """Whether what must be restored grows by doubling (1) or by equal steps (0)."""
    return of_grid(name, "prefix", "all", front_bend)(found)


def doubling_bend(length: int) -> float:
    """What fronts that double until all of a sequence must be restored come to."""
    return bend([min(2**layer, length) for layer in range(length)])


def long_enough(measure: Measure, bound: float) -> Measure:
    """A measure of bends, with no number where the models' sequences are so short that even
    doubling would stay below the bound."""

    def measured(found: Results) -> Measured:
        made = measure(found)
        names = [source.split("/")[1] for source in made.sources]
        lengths = [grid(found, name, "prefix")[0].shape[1] for name in names]
        would = [doubling_bend(length) for length in lengths]
        if min(would) >= bound:
            return made
        said = ", ".join(f"{one:.2f} at length {n}" for one, n in zip(would, lengths, strict=True))
        words = f"too short to tell: doubling itself has {said}, these {made.value:.2f} on average"
        return Measured(None, words=f"{words}; {made.words}", sources=made.sources)

    return measured


def equal_cutoffs(prefix: str) -> Measure:
    """Of the models whose folders begin so, the share whose state and parity are right up to the
    same length."""

    def measure(found: Results) -> Measured:
        files = {name: lens_file(name, "generalization", "json") for name in found.folders(prefix)}
        files = {name: file for name, file in files.items() if found.exists(file)}
        if not files:
            raise Missing(f"no folder of results/ that begins with '{prefix}' has cutoffs")
        ends = [found.json(file)["summary"]["cutoff"] for file in files.values()]
        state, parity = ([end[what]["first_below"] for end in ends] for what in ("state", "parity"))
        alike = sum(one == other for one, other in zip(state, parity, strict=True))
        said = "; ".join(
            f"state {one}, parity {two}" for one, two in zip(state, parity, strict=True)
        )
        made = share_of(alike, len(ends), "models", tuple(files.values()), f"cutoffs: {said}")
        return sized(found, made, list(files))

    return measure


def gain_of(found: Results, name: str) -> Measured:
    """Of what the state probe gains at the last token, the share gained in the deeper half."""
    values, n = curve(found, name, "state")
    value, off = deeper_half(values, n)
    return Measured(value, n, "sequences", value - off, value + off, words=percent_by_layer(values))
