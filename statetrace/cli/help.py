"""What --help shows: arguments in capitals, and of many options only the common ones."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

_ALL = "statetrace.help-all"


class Commands(TyperGroup):
    """Commands whose help names arguments in capitals and flags without the type <bool>."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _named(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _named(command.get_params(ctx))
        return command


def _named(params: list[Any]) -> list[Any]:
    for param in params:
        if param.metavar is None and param.param_type_name == "argument":
            param.metavar = param.name.upper()
        if "zoo:" in (getattr(param, "help", None) or ""):
            param.get_missing_message = _example
        if param.metavar is None and param.param_type_name == "option" and param.is_flag:
            param.metavar = ""
    return params


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
