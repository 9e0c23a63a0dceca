"""A number with its interval, what it was counted over, and the files it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reproduction.results import Missing, Results
from statetrace.lenses.parts.intervals import quantile, wilson


@dataclass(frozen=True)
class Measured:
    """What results/ says about a claim.

    Attributes:
        value: the number a rule looks at; None where nothing was measured.
        low, high: its 95% interval; None for a single model's number that has none.
        n, of: how many of what it was counted over.
        unit: "share" is written in percent; others stand behind the number.
        words: what a person should know beside it, made from the same files.
        sources: the files, as from the project's root.
        size: of the models it was measured on, where the files tell; else the recipe does.
        at_size: whether those are of the paper's size, and none a stand-in.
        others: the same number of other models of that size, each with which it is.
    """

    value: float | None
    n: int = 0
    of: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    words: str = ""
    sources: tuple[str, ...] = ()
    size: str = ""
    at_size: bool = False
    others: tuple[tuple[float, str], ...] = ()

    def text(self) -> str:
        """As it stands in the page."""
        if self.value is None:
            return self.words or "nothing measured"
        said = f"**{self._number(self.value)}**"
        if self.low is not None and self.high is not None:
            said += f" ({self._number(self.low)} to {self._number(self.high)})"
        of = self.of.removesuffix("s") if self.n == 1 else self.of
        said += f", n = {self.n:,} {of}".rstrip()
        said += f"; {self.words}" if self.words else ""
        others = ", ".join(f"{self._number(value)} ({which})" for value, which in self.others)
        return f"{said}; others of this size: {others}" if others else said

    def _number(self, value: float) -> str:
        if self.unit == "share":
            return f"{100 * value:.0f}%" if abs(value) >= 0.1 or value == 0 else f"{value:.1%}"
        unit = self.unit.removesuffix("s") if value == 1 else self.unit
        return f"{value:.3g}{'' if unit in ('', '°', '%') else ' '}{unit}"


Measure = Callable[[Results], Measured]
"""How a number is found; a pure function of the files."""


def share_of(
    count: int, n: int, of: str, sources: tuple[str, ...], words: str = "", size: str = ""
) -> Measured:
    """A share with Wilson's interval; nothing where n is 0."""
    if n == 0:
        return Measured(None, words=words or f"no {of} yet", sources=sources)
    low, high = wilson(np.array(count), n)
    said = f"{count} of {n}" + (f"; {words}" if words else "")
    return Measured(count / n, n, of, float(low), float(high), "share", said, sources, size)


def of_deviation(value: float, n: int) -> tuple[float, float]:
    """The interval of a standard deviation over n, by Wilson and Hilferty's chi-squared; without an
    upper end where there are too few."""
    if n < 2:
        return 0.0, math.inf
    part, z = 2 / (9 * (n - 1)), float(quantile())
    most, least = (1 - part + sign * z * part**0.5 for sign in (1, -1))
    return value / most**1.5, value / least**1.5 if least > 0 else math.inf


def of_correlation(value: float, n: int) -> tuple[float, float]:
    """The interval of a correlation over n, by Fisher's transformation."""
    if n < 4:
        return -1.0, 1.0
    middle, off = math.atanh(min(max(value, -0.9999), 0.9999)), float(quantile()) / (n - 3) ** 0.5
    return math.tanh(middle - off), math.tanh(middle + off)


RESAMPLED = 2_000
Values = Sequence[float] | np.ndarray


def resampled(values: Values, rng: np.random.Generator) -> np.ndarray:
    """Means of as many values drawn again from these, [RESAMPLED]."""
    return rng.choice(np.asarray(values, dtype=float), (RESAMPLED, len(values))).mean(1)


def mean_gap(one: Values, two: Values) -> tuple[float, float, float]:
    """How much larger the mean of the first is, and its interval, by resampling both."""
    rng = np.random.default_rng(0)
    drawn = [resampled(values, rng) for values in (one, two)]
    low, high = np.percentile(drawn[0] - drawn[1], [2.5, 97.5])
    return float(np.mean(one) - np.mean(two)), float(low), float(high)


def first_of(*measures: Measure) -> Measure:
    """The first that has a number; if none has, what the first says."""

    def measure(found: Results) -> Measured:
        said: list[Measured] = []
        for one in measures:
            try:
                said.append(one(found))
            except Missing:
                continue
            if said[-1].value is not None:
                return said[-1]
        return said[0] if said else Measured(None)

    return measure
