"""`statetrace lenses`: the lenses and their settings."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.completion import complete_lens
from statetrace.cli.console import next_steps, out, print_table


def lenses(
    name: Annotated[
        str | None,
        typer.Argument(help="A lens, to list its settings.", autocompletion=complete_lens),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the lenses, or the settings of one.

    A setting is given to `statetrace analyze` as --set LENS.SETTING=VALUE, and to model.analyze in
    Python as a keyword.
    """
    from statetrace import plugins
    from statetrace.config.checks import known
    from statetrace.glossary import define
    from statetrace.lenses.registry import BUILTIN, LENSES

    names = [*BUILTIN, *plugins.names("lens")]
    if name is not None:
        known(name, names, "lens")
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    if name is None and not as_json:
        for lens in names:
            table.add_row(Text(lens, style="bold"), Text(define(lens)))
        print_table(table)
        next_steps("statetrace lenses NAME explains the settings of one lens")
        return
    if as_json:
        chosen = list(LENSES) if name is None else [name]
        listed = {lens: _as_json(LENSES[lens].spec) for lens in chosen}
        out.print(json.dumps(listed, indent=2), markup=False)
        return
    assert name is not None
    if definition := define(name):
        out.print(Text.assemble((name, "bold"), f": {definition}.\n"))
    for field in dataclasses.fields(LENSES[name].spec):
        help_text = field.metadata.get("help", "")
        table.add_row(Text(field.name, style="bold"), _shown(field.default), Text(help_text))
    print_table(table)
    next_steps(["analyze", "RUN", "--only", name, "--set", f"{name}.SETTING=VALUE"])


def _as_json(spec: type) -> dict[str, Any]:
    return {
        field.name: {"default": _shown(field.default).plain, "help": field.metadata.get("help", "")}
        for field in dataclasses.fields(spec)
    }


def _shown(default: Any) -> Text:
    if isinstance(default, list | tuple):
        return Text(", ".join(str(getattr(part, "name", part)) for part in default) or "none")
    if default is dataclasses.MISSING:
        return Text("required")
    return Text("none" if default is None else str(default))
