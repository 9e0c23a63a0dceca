"""When a number supports a claim: a rule per test, written in its TOML block.

    { at_least = 0.5 }, { at_most = 0.1 }    the whole interval on that side
    { near = [0.5, 0.1] }                    the whole interval within 0.1 of 0.5
    { contains = 0.333 }                     the interval contains 0.333 (optional: widest = 0.5)
    { most = 0.95 }                          a share of models: at least 0.95 of three or more;
                                             refuted where three or more do not belong to it
                                             and the interval lies below 0.95
    { equal = 0.5 }                          a difference: its interval contains 0 and lies within
                                             0.5 of it; refuted where it excludes 0

An interval on both sides of a bound decides nothing. `least` is the n below which nothing is
decided either.
"""

from __future__ import annotations

import math
from typing import Any

from reproduction.statistics import Number
from statetrace.errors import StatetraceError

KINDS = ("at_least", "at_most", "near", "contains", "most", "equal")
SLACK = 1e-9
FEW = 3
"""Models that it takes to support or refute what is said of all."""


def check_rule(rule: dict[str, Any]) -> str:
    """The kind of a rule; an error for one that has none or several."""
    kinds = [name for name in rule if name in KINDS]
    unknown = set(rule) - {*KINDS, "least", "widest"}
    if len(kinds) != 1 or unknown:
        raise StatetraceError(f"rule {rule} should have exactly one of {', '.join(KINDS)}")
    return kinds[0]


def supports(rule: dict[str, Any], number: Number) -> bool | None:
    """Whether the number supports the claim; None where it does not decide."""
    kind = check_rule(rule)
    if not math.isfinite(number.value) or number.n < rule.get("least", 1):
        return None
    low = number.value if number.low is None else number.low
    high = number.value if number.high is None else number.high
    bound = rule[kind]
    if kind == "at_least":
        return _decide(low >= bound - SLACK, high < bound - SLACK)
    if kind == "at_most":
        return _decide(high <= bound + SLACK, low > bound + SLACK)
    if kind == "near":
        centre, margin = bound[0], bound[1] + SLACK
        inside = abs(low - centre) <= margin and abs(high - centre) <= margin
        return _decide(inside, low > centre + margin or high < centre - margin)
    inside = low - SLACK <= (0 if kind == "equal" else bound) <= high + SLACK
    if kind == "contains":
        return _decide(inside and high - low <= rule.get("widest", 0.5), not inside)
    if kind == "equal":
        return _decide(inside and max(-low, high) <= bound, not inside)
    others = round((1 - number.value) * number.n)
    return _decide(number.value >= bound and number.n >= FEW, others >= FEW and high < bound)


def _decide(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None
