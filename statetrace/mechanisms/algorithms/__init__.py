"""The candidate algorithms of the paper's section 3 as small programs; numpy only."""

from __future__ import annotations

from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.mechanisms.algorithms.associative import Associative
from statetrace.mechanisms.algorithms.parallel import Parallel
from statetrace.mechanisms.algorithms.program import Program, Table
from statetrace.mechanisms.algorithms.quotient_associative import QuotientAssociative
from statetrace.mechanisms.algorithms.sequential import Sequential

ALGORITHMS = ("sequential", "parallel", "associative", "parity-associative")
"""In the order of the paper's Figure 1."""

__all__ = [
    "ALGORITHMS",
    "Associative",
    "Parallel",
    "Program",
    "QuotientAssociative",
    "Sequential",
    "Table",
    "algorithm",
]


def algorithm(name: str, group: Group, quotient: Quotient | str | None = None) -> Program:
    """The program of that name for a group, or an error that says why there is none.

    `quotient` is for "parity-associative" alone: what to count first instead of parity.
    """
    if name not in ALGORITHMS:
        raise StatetraceError(f"there is no algorithm {name!r}: use one of {', '.join(ALGORITHMS)}")
    if name == "parity-associative":
        return QuotientAssociative.of(group, quotient)
    if quotient is not None:
        called = quotient if isinstance(quotient, str) else quotient.name
        raise StatetraceError(
            f"the {name} algorithm takes no quotient, but {called!r} was given: "
            "leave it out, or use parity-associative"
        )
    if name == "parallel":
        return Parallel.of(group)
    return Sequential(group) if name == "sequential" else Associative(group)
