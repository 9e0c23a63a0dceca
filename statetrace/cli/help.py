"""What --help shows: arguments in capitals, TEXT or N for the value of an option, and of many
options only the common ones."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

_ALL = "statetrace.help-all"


class Commands(TyperGroup):
    """Commands whose help names arguments in capitals, without types of Python."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _named(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _named(command.get_params(ctx))
        return command


def _named(params: list[Any]) -> list[Any]:
    for param in params:
        if param.param_type_name == "argument":
            _name_argument(param)
        if "zoo:" in (getattr(param, "help", None) or ""):
            param.get_missing_message = _example
        if param.metavar is None and param.param_type_name == "option":
            param.metavar = "" if param.is_flag else _METAVARS.get(_type(param), "TEXT")
    return params


_METAVARS = {"int": "N", "integer": "N", "float": "X"}


def _type(param: Any) -> str:
    """The name of its type; older versions of typer have it elsewhere."""
    return str(param.bare_type() if hasattr(param, "bare_type") else param.type.name)


def _name_argument(param: Any) -> None:
    param.metavar = param.metavar or param.name.upper()
    needed = param.required or "zoo:" in (param.help or "")  # or its old name, a hidden option
    usage = param.metavar if needed else f"[{param.metavar}]"
    param.get_usage_pieces = lambda ctx: [usage + ("..." if param.nargs == -1 else "")]
    param.display_type_rich = lambda ctx: None


def _example(ctx: Any) -> str:
    return f"For example: statetrace {ctx.info_name} zoo:s3-associative"


def short_help(*common: str) -> type[TyperCommand]:
    """A class of command whose --help lists only arguments and the `common` options. The command
    needs a parameter of type `HelpAll`."""

    class ShortHelp(TyperCommand):
        def get_params(self, ctx: Any) -> list[Any]:
            params = super().get_params(ctx)
            if ctx.meta.get(_ALL) is not False:  # not while the short help is written
                return params
            shown = {*common, "help_all", "help"}
            return [p for p in params if p.name in shown or p.param_type_name == "argument"]

        def format_help(self, ctx: Any, formatter: Any) -> None:
            ctx.meta.setdefault(_ALL, False)
            super().format_help(ctx, formatter)

    return ShortHelp


def _show_all(ctx: typer.Context, used: bool) -> None:
    if used and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options."),
]
