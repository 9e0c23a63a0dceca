"""Command-line options generated from the settings, so that the two cannot drift apart."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from statetrace.config.external import ReadingOptions
from statetrace.config.presets import LAPTOP
from statetrace.config.recipe import OPTIONS, SECTIONS, TYPE_NAMES

NOTATION = (
    "How to read 312: 'moves' (object 1 moves to position 3) or 'receives' (position 1 receives "
    "object 3)."
)

PANELS = {
    "task": "Task",
    "model": "Model",
    "training": "Training",
    "evaluation": "Evaluation",
    "checkpoint": "Checkpoints",
}


def path_named(name: str | Path) -> Path:
    """The argument of --out, or its default; an empty one, from an unset variable, is refused."""
    if not str(name).strip():
        raise typer.BadParameter(f"{name!r} is not a path; use '.' for the current directory")
    return Path(name)


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option per setting; it receives those that were used as `given`."""
    options = [
        _parameter(SECTIONS[section], name, option, PANELS[section])
        for option, (section, name) in OPTIONS.items()
    ]
    return _with_options(function, "given", options, lambda given: given)


def with_fields(spec: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per field of a dataclass; it receives an instance as `spec`."""
    names = [field.name for field in dataclasses.fields(spec)]
    options = [_parameter(spec, name, name, None) for name in names]
    return lambda function: _with_options(function, "spec", options, lambda given: spec(**given))


def with_reading(panel: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that describe an external checkpoint; it receives those that were
    used as `reading`."""
    names = [field.name for field in dataclasses.fields(ReadingOptions)]
    options = [_parameter(ReadingOptions, name, name, panel, panel) for name in names]
    return lambda function: _with_options(function, "reading", options, lambda given: given)


def _with_options(
    function: Callable[..., None],
    argument: str,
    options: list[inspect.Parameter],
    collect: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:
    """Replace one `argument` of a command by `options`; those that were used are collected."""
    signature = inspect.signature(function, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != argument]

    def command(**values: Any) -> None:
        given = {option.name: values.pop(option.name) for option in options}
        given = {name: value for name, value in given.items() if value is not None}
        function(**values, **{argument: collect(given)})

    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*own, *options]
    )
    command.__doc__ = function.__doc__
    return command


def _parameter(
    section: type, name: str, option: str, panel: str | None, switches: str = "Switches"
) -> inspect.Parameter:
    setting = next(f for f in dataclasses.fields(section) if f.name == name)
    kind = _bare(typing.get_type_hints(section)[name])
    flag = option.replace("_", "-")
    text = setting.metadata["help"]
    if kind is bool:
        declared = f"--{flag}" if flag.startswith("no-") else f"--{flag}/--no-{flag}"
    else:
        declared = f"--{flag}"
        laptop = LAPTOP.get(option) if section in SECTIONS.values() else None
        text += _defaults(setting.default, laptop)
    annotation: Any = typer.Option(
        declared,
        help=text,
        show_default=False,
        metavar=_METAVARS.get(kind),
        parser=_number(kind) if kind in (int, float) else None,
        # pairs of flags are wide and would squeeze the help text of their neighbours
        rich_help_panel=switches if kind is bool else panel,
    )
    return inspect.Parameter(
        option,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=typing.Annotated[kind | None, annotation],
    )


def _number(kind: type) -> Callable[[Any], Any]:
    """A parser whose error quotes the value."""

    def parse(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise typer.BadParameter(f"'{value}' is not {TYPE_NAMES[kind]}") from None

    return parse


def _defaults(paper: Any, laptop: Any) -> str:
    """The default of a setting, or those of both presets where they differ."""
    if laptop is None or laptop == paper:
        return "" if paper is None else f" (default: {paper})"
    return f" (laptop: {laptop})" if paper is None else f" (laptop: {laptop}; paper: {paper})"


_METAVARS = {int: "N", float: "X", str: "TEXT"}


def _bare(kind: Any) -> Any:
    """`int` for `int | None`."""
    if isinstance(kind, types.UnionType):
        return next(t for t in typing.get_args(kind) if t is not types.NoneType)
    return kind
