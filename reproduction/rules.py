"""When a measured number agrees with the paper: a rule per claim, never a hand.

A rule that has an interval to look at uses it: the claim's number must lie inside, or the whole
interval on the claim's side of a bound. Where the interval lies on both sides nothing is decided,
which counts as not reached yet. Below `least` observations nothing is decided either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reproduction.measured import Measured
from statetrace.lenses.parts.intervals import wilson

AGREES, DIFFERS, NOT_REACHED = "agrees", "differs", "not reached yet"
JUDGEMENTS = (AGREES, DIFFERS, NOT_REACHED)


class Rule(Protocol):
    """How a claim is judged."""

    @property
    def least(self) -> int: ...

    def meets(self, found: Measured) -> bool | None:
        """None where the number does not decide."""

    def text(self) -> str:
        """The rule in words, as the page gives it."""


def judge(rule: Rule, found: Measured) -> str:
    """One of JUDGEMENTS."""
    if found.value is None or not math.isfinite(found.value) or found.n < rule.least:
        return NOT_REACHED
    met = rule.meets(found)
    return NOT_REACHED if met is None else AGREES if met else DIFFERS


@dataclass(frozen=True)
class Inside:
    """The paper's number lies in our interval; one that is wider than `widest` only decides where
    the number lies outside of it.

    A share's width is taken around the paper's number: none at all of four has a narrower interval
    than one of four, and would else agree with 40% where that could not.
    """

    expected: float
    least: int = 4
    widest: float = 0.5

    def meets(self, found: Measured) -> bool | None:
        if found.low is None or found.high is None:
            return None
        if not found.low - 1e-9 <= self.expected <= found.high + 1e-9:
            return False
        low, high = found.low, found.high
        if found.unit == "share":
            low, high = map(float, wilson(np.array(self.expected * found.n), found.n))
        return True if high - low <= self.widest else None

    def text(self) -> str:
        return (
            f"{self.expected:.3g} inside our interval, with n enough for one no wider than "
            f"{self.widest:.3g} around it; n ≥ {self.least}"
        )


@dataclass(frozen=True)
class Near:
    """Our number, with all of its interval, is at most `margin` from the paper's."""

    expected: float
    margin: float
    least: int = 1

    def meets(self, found: Measured) -> bool | None:
        low, high = _ends(found)
        margin = self.margin + 1e-9
        if abs(low - self.expected) <= margin and abs(high - self.expected) <= margin:
            return True
        apart = low > self.expected + margin or high < self.expected - margin
        return False if apart else None

    def text(self) -> str:
        return f"{self.expected:.3g} ± {self.margin:.3g}"


@dataclass(frozen=True)
class AtLeast:
    bound: float
    least: int = 1

    def meets(self, found: Measured) -> bool | None:
        return _side(found, self.bound)

    def text(self) -> str:
        return f"at least {self.bound:.3g}" + (f", n ≥ {self.least}" if self.least > 1 else "")


@dataclass(frozen=True)
class AtMost:
    bound: float
    least: int = 1

    def meets(self, found: Measured) -> bool | None:
        above = _side(found, self.bound, strictly=True)
        return None if above is None else not above

    def text(self) -> str:
        return f"at most {self.bound:.3g}" + (f", n ≥ {self.least}" if self.least > 1 else "")


@dataclass(frozen=True)
class Unmeasured:
    """For claims that nothing in results/ speaks to yet."""

    least: int = 1

    def meets(self, found: Measured) -> bool | None:
        return None

    def text(self) -> str:
        return "none yet"


def _side(found: Measured, bound: float, strictly: bool = False) -> bool | None:
    """Whether the number and all of its interval lie above the bound; None if only a part."""
    above = [end > bound if strictly else end >= bound for end in _ends(found)]
    return above[0] if above[0] == above[1] else None


def _ends(found: Measured) -> tuple[float, float]:
    """Of its interval; the number itself where it has none."""
    assert found.value is not None
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    return low, high
