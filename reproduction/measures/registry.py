"""The decorators that make a function a measure, and how a claim's name finds it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from reproduction.statistics import Number
from statetrace.errors import StatetraceError

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Measure:
    """Attributes: kind: "each", "together" or "rows"; lens: the lens whose results it reads."""

    function: Callable[..., Number]
    kind: str
    lens: str = ""


REGISTRY: dict[str, Measure] = {}
FILES = ("patching", "probing", "geometry", "attention", "lengths", "training", "choice")


def each(lens: str) -> Callable[[Function], Function]:
    return _register("each", lens)


def together(lens: str) -> Callable[[Function], Function]:
    return _register("together", lens)


def rows(function: Function) -> Function:
    return _register("rows", "")(function)


def _register(kind: str, lens: str) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        REGISTRY[name] = Measure(function, kind, lens)
        return function

    return add


def find(name: str, arguments: dict[str, Any]) -> Measure:
    """The measure that a claim names; an error where its arguments do not fit."""
    for file in FILES:
        import_module(f"reproduction.measures.{file}")
    if name not in REGISTRY:
        raise StatetraceError(f"there is no measure '{name}'; known: {', '.join(sorted(REGISTRY))}")
    try:
        inspect.signature(REGISTRY[name].function).bind(None, **arguments)
    except TypeError as error:
        raise StatetraceError(f"measure '{name}' with {arguments}: {error}") from None
    return REGISTRY[name]
