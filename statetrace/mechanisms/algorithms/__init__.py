"""The candidate algorithms of the paper's section 3 as small programs, others that compiled models
run, and registered ones; numpy only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from statetrace import plugins
from statetrace.config.checks import whole
from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.mechanisms.algorithms.composed_quotient import ComposedQuotient
from statetrace.mechanisms.algorithms.folds import Associative, Chunked, Sequential, Strided
from statetrace.mechanisms.algorithms.parallel import Parallel
from statetrace.mechanisms.algorithms.program import Program
from statetrace.mechanisms.algorithms.quotient_associative import QuotientAssociative

ALGORITHMS = ("sequential", "parallel", "associative", "parity-associative")
"""In the order of the paper's Figure 1; the verdict ranks these."""

FURTHER = ("composed-quotient", "strided", "chunked")
"""Algorithms that are not candidates of the verdict."""

_PROGRAMS: dict[str, type[Program]] = {
    "sequential": Sequential,
    "parallel": Parallel,
    "associative": Associative,
    "parity-associative": QuotientAssociative,
    "composed-quotient": ComposedQuotient,
    "strided": Strided,
    "chunked": Chunked,
}

__all__ = [
    "ALGORITHMS",
    "FURTHER",
    "Associative",
    "Chunked",
    "ComposedQuotient",
    "Parallel",
    "Program",
    "QuotientAssociative",
    "Sequential",
    "Strided",
    "algorithm",
    "algorithm_names",
]


def algorithm_names() -> list[str]:
    """The paper's algorithms, then registered ones."""
    return [*ALGORITHMS, *plugins.names("algorithm")]


def algorithm(
    name: str, group: Group, quotient: Quotient | str | None = None, stride: int | None = None
) -> Program:
    """The program of that name for a group, refused with the reason where there is none.

    Args:
        quotient: what "parity-associative" counts or "composed-quotient" composes first.
        stride: of a strided or chunked fold, 4 by default.
    """
    program = _PROGRAMS[name] if name in _PROGRAMS else plugins.find("algorithm", name)
    if program is None:
        names = ", ".join([*algorithm_names(), *FURTHER])
        raise StatetraceError(f"there is no algorithm {name!r}; use one of {names}")
    if program in (QuotientAssociative, ComposedQuotient):
        return program.of(group, quotient)
    if quotient is not None:
        called = quotient if isinstance(quotient, str) else quotient.name
        raise StatetraceError(
            f"the {name} algorithm takes no quotient, but {called!r} was given; "
            "leave it out, or use parity-associative or composed-quotient"
        )
    if stride is not None and program in (Strided, Chunked):
        return program(group, whole("stride", stride, 1))
    build: Callable[[Group], Program] = plugins.guarded("algorithm", name, program.of)
    return build(group)


def is_builtin(name: str) -> bool:
    return name in _PROGRAMS


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
