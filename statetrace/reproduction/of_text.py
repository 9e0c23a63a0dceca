"""Numbers from models that read sentences, taken together (appendix E)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from statetrace.reproduction.kept import sized
from statetrace.reproduction.measured import Measure, Measured
from statetrace.reproduction.of_patching import grid, largest_leap
from statetrace.reproduction.of_probing import curve, deeper_half, percent_by_layer
from statetrace.reproduction.results import Missing, Results, lens_file


def mean_of_folders(
    prefix: str, lens: str, number: Callable[[Results, str], tuple[float, str]], unit: str = ""
) -> Measure:
    """The mean of a number over all models whose folders begin so; `number` returns it with
    words."""

    def measure(found: Results) -> Measured:
        names = [name for name in found.folders(prefix) if found.exists(lens_file(name, lens))]
        if not names:
            raise Missing(f"no folder of results/ that begins with '{prefix}' has {lens}")
        values = [number(found, name) for name in names]
        made = Measured(float(np.mean([value for value, _ in values])), len(names), "models",
                        unit=unit, words="; ".join(said for _, said in values),
                        sources=tuple(lens_file(name, lens) for name in names))  # fmt: skip
        return sized(found, made, names)

    return measure


def leap_of(found: Results, name: str) -> tuple[float, str]:
    """The largest share of the sequence that one layer adds to what must be restored."""
    cells, _ = grid(found, name, "prefix")
    return largest_leap(cells)


def gain_of(found: Results, name: str) -> tuple[float, str]:
    """Of what the state probe gains at the last token, the share gained in the deeper half."""
    values, _ = curve(found, name, "state")
    return deeper_half(values), percent_by_layer(values)
