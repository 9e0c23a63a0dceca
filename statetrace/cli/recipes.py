"""`statetrace recipes`: the recipes and studies of the package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from statetrace.cli.completion import complete_recipe
from statetrace.cli.console import next_steps, out, print_table
from statetrace.config.bundled import RECIPES, bundled_names, locate, suggestion
from statetrace.config.recipe import is_study
from statetrace.config.toml_io import read_tables
from statetrace.errors import StatetraceError


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print this one, such as paper/s3-gpt2.", autocompletion=complete_recipe
        ),
    ] = None,
) -> None:
    """List the bundled recipes and studies, or print one of them.

    Commands accept their names: `statetrace train demo`, `statetrace study studies/toy --out DIR`.
    """
    if name is not None:
        file = locate(name)
        if not file.is_file():
            raise StatetraceError(f"there is no recipe '{name}'; {suggestion(name)}")
        out.print(file.read_text().rstrip(), markup=False, soft_wrap=True)
        if is_study(read_tables(file, "recipe")):
            next_steps(["study", name, "--out", "STUDY"])
        else:
            next_steps(["train", name, "--dry-run"])
        return
    table = Table(box=None, padding=0, show_header=False)
    for each in bundled_names():
        command = "study" if is_study(read_tables(Path(each), "recipe")) else "train"
        table.add_row(Text(f"{command} {each}", style="bold"))
        table.add_row(Padding(Text(_description(each)), (0, 0, 0, 4)))
    print_table(table)
    next_steps(["recipes", "paper/s3-gpt2"], ["train", "paper/s3-gpt2", "--dry-run"])


def _description(name: str) -> str:
    """The first sentence of the comment at the top of a file."""
    comment = []
    for line in (RECIPES / f"{name}.toml").read_text().splitlines():
        if not line.startswith("# ") or line.startswith("#   "):
            break
        comment.append(line.removeprefix("# "))
    text = " ".join(comment).removeprefix(f"zoo:{name.removeprefix('zoo/')}. ")
    return re.split(r"(?<=[.?]) (?=[A-Z])", text)[0]
