"""The candidate algorithms of the paper's section 3 as small programs, and registered ones; numpy
only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.mechanisms.algorithms.associative import Associative
from statetrace.mechanisms.algorithms.parallel import Parallel
from statetrace.mechanisms.algorithms.program import Program
from statetrace.mechanisms.algorithms.quotient_associative import QuotientAssociative
from statetrace.mechanisms.algorithms.sequential import Sequential

ALGORITHMS = ("sequential", "parallel", "associative", "parity-associative")
"""In the order of the paper's Figure 1."""

_PROGRAMS: dict[str, type[Program]] = dict(
    zip(ALGORITHMS, (Sequential, Parallel, Associative, QuotientAssociative), strict=True)
)

__all__ = [
    "ALGORITHMS",
    "Associative",
    "Parallel",
    "Program",
    "QuotientAssociative",
    "Sequential",
    "algorithm",
    "algorithm_names",
]


def algorithm_names() -> list[str]:
    """The paper's algorithms, then registered ones."""
    return [*ALGORITHMS, *plugins.names("algorithm")]


def algorithm(name: str, group: Group, quotient: Quotient | str | None = None) -> Program:
    """The program of that name for a group, refused with the reason where there is none.

    `quotient` is for "parity-associative" only: what to count first instead of parity.
    """
    if name == "parity-associative":
        return QuotientAssociative.of(group, quotient)
    program = _PROGRAMS[name] if name in _PROGRAMS else plugins.find("algorithm", name)
    if program is None:
        raise StatetraceError(
            f"there is no algorithm {name!r}; use one of {', '.join(algorithm_names())}"
        )
    if quotient is not None:
        called = quotient if isinstance(quotient, str) else quotient.name
        raise StatetraceError(
            f"the {name} algorithm takes no quotient, but {called!r} was given; "
            "leave it out, or use parity-associative"
        )
    build: Callable[[Group], Program] = plugins.guarded("algorithm", name, program.of)
    return build(group)


def is_builtin(name: str) -> bool:
    return name in ALGORITHMS


def check_plugin(name: str, thing: Any) -> type[Program]:
    """A subclass of Program that implements all of its methods and has the registered name."""
    if not (isinstance(thing, type) and issubclass(thing, Program)):
        raise StatetraceError(f"{thing!r} is not a subclass of Program")
    if inspect.isabstract(thing):
        missing = ", ".join(sorted(thing.__abstractmethods__))
        raise StatetraceError(f"{thing.__name__} does not implement {missing}")
    if thing.name != name:
        raise StatetraceError(f"{thing.__name__}.name is {thing.name!r}, not {name!r}")
    return thing
