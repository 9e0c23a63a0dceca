"""A number with its interval, what it was counted over, and the files it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from statetrace.lenses.parts.intervals import wilson
from statetrace.reproduction.results import Missing, Results


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

    def text(self) -> str:
        """As it stands in the page."""
        if self.value is None:
            return self.words or "nothing measured"
        said = f"**{self._number(self.value)}**"
        if self.low is not None and self.high is not None:
            said += f" ({self._number(self.low)} to {self._number(self.high)})"
        of = self.of.removesuffix("s") if self.n == 1 else self.of
        said += f", n = {self.n:,} {of}".rstrip()
        return f"{said}; {self.words}" if self.words else said

    def _number(self, value: float) -> str:
        if self.unit == "share":
            return f"{100 * value:.0f}%" if abs(value) >= 0.1 or value == 0 else f"{value:.1%}"
        return f"{value:.3g}{'' if self.unit in ('', '°', '%') else ' '}{self.unit}"


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
