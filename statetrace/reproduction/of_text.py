"""Numbers from models that read sentences, taken together (appendix E)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from statetrace.reproduction.kept import sized
from statetrace.reproduction.measured import Measure, Measured
from statetrace.reproduction.of_patching import fronts, grid
from statetrace.reproduction.of_probing import curve
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
    needed = fronts(cells)
    said = " ".join(map(str, needed))
    return float(max(np.diff(needed)) / cells.shape[1]), f"actions to restore, by layer {said}"


def gain_of(found: Results, name: str) -> tuple[float, str]:
    """Of what the state probe gains at the last token, the share gained in the deeper half."""
    values, _ = curve(found, name, "state")
    middle = (len(values) - 1) // 2
    said = " ".join(f"{100 * value:.0f}" for value in values)
    share = (values[-1] - values[middle]) / (values[-1] - values[0])
    return float(share), f"percent right by layer {said}"
