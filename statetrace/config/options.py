"""Options of a command made from the settings themselves, so they cannot drift apart."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from statetrace.config.recipe import OPTIONS, SECTIONS

NOTATION = "How to read 312: 'moves' (object 1 moves to position 3) or 'receives' (the reverse)."

PANELS = {
    "task": "Task: what the model is asked",
    "model": "Model",
    "training": "Training (defaults: the paper's)",
    "evaluation": "Evaluation",
    "checkpoint": "Checkpoints",
}


def path_named(word: str) -> Path:
    """What --out says. An empty word, such as an unset variable leaves, would be the current
    directory."""
    if not word.strip():
        raise typer.BadParameter(f"{word!r} is no name; use '.' for the current directory")
    return Path(word)


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option per setting; those that were used arrive as `given`, by name."""
    plain = inspect.signature(function, eval_str=True)
    own = [parameter for name, parameter in plain.parameters.items() if name != "given"]

    def command(**values: Any) -> None:
        given = {name: values.pop(name) for name in OPTIONS}
        given = {name: value for name, value in given.items() if value is not None}
        function(**values, given=given)

    command.__signature__ = plain.replace(  # type: ignore[attr-defined]
        parameters=[*own, *(_option(option) for option in OPTIONS)]
    )
    command.__doc__ = function.__doc__
    return command


def with_fields(of: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per field of a dataclass; it receives an instance as `spec`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        plain = inspect.signature(function, eval_str=True)
        own = [parameter for name, parameter in plain.parameters.items() if name != "spec"]
        names = [field.name for field in dataclasses.fields(of)]

        def command(**values: Any) -> None:
            given = {name: values.pop(name) for name in names}
            given = {name: value for name, value in given.items() if value is not None}
            function(**values, spec=of(**given))

        made = [_parameter(of, name, name, None) for name in names]
        command.__signature__ = plain.replace(  # type: ignore[attr-defined]
            parameters=[*own, *made]
        )
        command.__doc__ = function.__doc__
        return command

    return decorate


def _option(option: str) -> inspect.Parameter:
    section, name = OPTIONS[option]
    return _parameter(SECTIONS[section], name, option, PANELS[section])


def _parameter(of: type, name: str, option: str, panel: str | None) -> inspect.Parameter:
    setting = next(f for f in dataclasses.fields(of) if f.name == name)
    kind = _bare(typing.get_type_hints(of)[name])
    flag = option.replace("_", "-")
    text = setting.metadata["help"]
    if kind is bool:
        declared = f"--{flag}/--no-{flag}"
    else:
        declared = f"--{flag}"
        text += "" if setting.default is None else f" (default {setting.default})"
    told = typer.Option(
        declared,
        help=text,
        show_default=False,
        metavar=_METAVARS.get(kind),
        # flag pairs are wide and would squeeze the help text of their neighbours
        rich_help_panel="Switches" if kind is bool else panel,
    )
    annotation: Any = typing.Annotated[kind | None, told]
    return inspect.Parameter(
        option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


_METAVARS = {int: "N", float: "X", str: "TEXT"}


def _bare(kind: Any) -> Any:
    """`int` for `int | None`."""
    if isinstance(kind, types.UnionType):
        return next(one for one in typing.get_args(kind) if one is not types.NoneType)
    return kind
