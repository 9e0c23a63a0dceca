"""`statetrace glossary`: what the terms mean."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import next_steps, out, print_table


def glossary(
    term: Annotated[list[str] | None, typer.Argument(help="A term, such as cutoff.")] = None,
) -> None:
    """Define the terms used in reports, figures and help texts, or one of them."""
    from statetrace.glossary import find, plain, terms

    if term:
        entry = find(" ".join(term))
        out.print(Text.assemble((entry.name, "bold"), f": {entry.definition}."))
        if entry.more:
            out.print(plain(entry.more), markup=False)
        next_steps(["glossary"])
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    part = ""
    for entry in terms().values():
        if entry.part != part:
            part = entry.part
            table.add_row(Text(f"\n{part}" if table.row_count else part, style="italic"))
        table.add_row(Text(entry.name, style="bold"), Text(entry.definition))
    print_table(table)
    next_steps("statetrace glossary TERM explains one term")
