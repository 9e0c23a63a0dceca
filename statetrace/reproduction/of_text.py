"""Numbers from models that read sentences, taken together (appendix E)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from statetrace.reproduction.kept import sized
from statetrace.reproduction.measured import Measure, Measured
from statetrace.reproduction.of_patching import largest_leap, of_grid
from statetrace.reproduction.of_probing import (
    OVER_SEQUENCES,
    curve,
    deeper_half,
    percent_by_layer,
)
from statetrace.reproduction.results import Missing, Results, lens_file


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


def leap_of(found: Results, name: str) -> Measured:
    """The largest share of the sequence that one layer adds to what must be restored."""
    return of_grid(name, "prefix", "all", largest_leap)(found)


def gain_of(found: Results, name: str) -> Measured:
    """Of what the state probe gains at the last token, the share gained in the deeper half."""
    values, n = curve(found, name, "state")
    value, off = deeper_half(values, n)
    return Measured(value, n, "sequences", value - off, value + off, words=percent_by_layer(values))
