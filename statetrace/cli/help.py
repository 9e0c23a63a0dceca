"""Commands with many options: --help shows the common ones, --help-all every one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

_ALL = "statetrace.help-all"


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
