"""`statetrace signatures`: what each algorithm would show under patching and probing."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import note, out
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.mechanisms.signatures import Signature

PICTURES = (".png", ".pdf", ".svg")
WIDTH = 80
LEGEND = (
    "To restore: how many of the first actions must be patched at layer 0, 1, 2, ... to bring the "
    "clean answer back ('8 x3': 8 at three layers). Readable: at the last token."
)
TARGETS = {
    "state": "state",
    "parity linear": "parity, if linear",
    "parity hidden": "parity, if not linear",
}
DRAWN = 8
"""Length of the diagrams: longer ones are too dense to read."""


def signatures(
    group: Annotated[str, typer.Option(help="The group: S5, A5, Z60, D6, A4xZ5, ...")] = "S3",
    length: Annotated[int, typer.Option(help="Actions per sequence.")] = 32,
    pairs: Annotated[int, typer.Option(help="Pairs of sequences for the patching.")] = 200,
    seed: Annotated[int, typer.Option(help="Which sequences are drawn.")] = 0,
    quotient: Annotated[
        str | None,
        typer.Option(help="What parity-associative counts first, if not parity.", metavar="NAME"),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The picture, .png, .pdf or .svg (default: signatures-GROUP-LENGTH.png).",
            metavar="FILE",
            parser=path_named,
        ),
    ] = None,
) -> None:
    """Predict what each algorithm would show: patching, probes, and where answers come from.

    Draws Figure 1 B to D of the paper for any group, from the algorithms themselves; no model is
    involved. The numbers are written beside the picture, as a .parquet file.
    """
    from statetrace.config.settings import check_seed
    from statetrace.groups import group as named
    from statetrace.mechanisms.algorithms import ALGORITHMS, algorithm
    from statetrace.mechanisms.dependencies import dependencies
    from statetrace.mechanisms.signatures import signature
    from statetrace.report.signatures import SignaturesFigure

    of = named(group)
    check_seed("seed", seed)
    picture = picture or Path(f"signatures-{of.name}-{length}.png")
    if picture.suffix.lower() not in PICTURES:
        raise StatetraceError(
            f"cannot draw '{picture}': its name must end in {', '.join(PICTURES[:-1])} or "
            f"{PICTURES[-1]}"
        )
    if not picture.absolute().parent.is_dir():
        raise StatetraceError(f"cannot write '{picture}': '{picture.parent}' is no folder")
    if quotient is not None:
        of.quotient(quotient)  # a misspelt one is an error, not a reason

    found: dict[str, Signature | str] = {}
    diagrams = {}
    for name in ALGORITHMS:
        try:
            program = algorithm(name, of, quotient if name == "parity-associative" else None)
        except StatetraceError as reason:
            found[name] = str(reason)
            continue
        found[program.name] = signature(program, of, length, pairs=pairs, seed=seed)
        diagrams[program.name] = dependencies(program, min(DRAWN, length))

    title = f"What each algorithm would show: {of.name}, length {length}"
    figure = SignaturesFigure(title, found, diagrams)
    numbers = picture.with_suffix(".parquet")
    figure.write_table(numbers)
    figure.draw(picture)
    out.print(Text(title, style="bold"))
    out.print(Text(fill(LEGEND, WIDTH)))
    for name, one in found.items():
        out.print()
        out.print(_summary(name, one) if not isinstance(one, str) else Text(fill(one, WIDTH)))
    note(f"table: {numbers}\npicture: {picture}")


def _summary(name: str, one: Signature) -> Table:
    table = Table(
        title=f"[bold]{name}[/bold]: {_plural(one.rows - 1, 'layer')}",
        title_justify="left",
        title_style="",
        show_header=False,
    )
    table.add_column(min_width=30)
    table.add_column(min_width=40, max_width=43)
    splits = [split for split in one.pairs if split != "all"] or ["all"]
    for split in splits:
        about = "" if split == "all" else f", {split} parity"
        table.add_row(f"to restore{about}", _listed(one.restores(split)))
    for target, grid in one.probes().items():
        table.add_row(f"readable: {TARGETS[target]}", _readable(grid[:, -1].tolist()))
    return table


def _listed(numbers: list[int | None]) -> str:
    """Layer by layer from 0 on; "32 x5" for five layers alike, "1, 2 .. 32" for a long climb."""
    words: list[str] = []
    runs: list[tuple[int | None, int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1] = (number, runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    for number, times in runs:
        shown = "never" if number is None else str(number)
        words.append(shown if times == 1 else f"{shown} x{times}")
    if len(words) > 12:
        words = [*words[:4], "...", *words[-2:]]
    return ", ".join(words)


def _readable(accuracy: list[float]) -> str:
    """At the last token, from the accuracies at layers 0, 1, ..."""
    sure = [layer for layer, value in enumerate(accuracy) if value == 1]
    before = f" ({accuracy[sure[0] - 1]:.0%} before)" if sure and sure[0] else ""
    return f"from layer {sure[0]}{before}" if sure else f"nowhere ({accuracy[-1]:.0%})"


def _plural(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
