"""`statetrace figures`: the figures of a run as files for a paper, each with its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import next_steps, note, out, working
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError


def figures(
    run: Annotated[str, typer.Argument(help="A run or study folder, or zoo:NAME.")],
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Output folder (default: figures in the run folder).",
            metavar="DIR",
            parser=path_named,
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", help="pdf or svg (vector), or png.", metavar="FORMAT")
    ] = "pdf",
    only: Annotated[
        str | None,
        typer.Option(help="Figures to draw, separated by commas (default: all).", metavar="NAMES"),
    ] = None,
) -> None:
    """Draw every figure as a file for a paper, with its numbers as CSV.

    Files are as wide as the text of a page and embed their fonts.
    """
    with working():
        from statetrace.cli.sources import folder_of
        from statetrace.reports.files import write_figures
        from statetrace.reports.page import is_study

        source = folder_of(run)
    folder = target or source / "figures"
    if folder.exists() and not folder.is_dir():
        raise StatetraceError(f"'{folder}' is a file; --out must name a folder")
    names = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    with working("drawing"):
        written, missing = write_figures(source, folder, kind, names)
    if names and not written:
        raise StatetraceError("; ".join(missing))
    for sentence in missing:
        note(sentence)
    if not written:
        study = f"`statetrace study FILE --out {source}` trains its cells"
        remedy = study if is_study(source) else f"run `statetrace analyze {source}` first"
        raise StatetraceError(f"'{source}' has nothing to draw yet; {remedy}")
    out.print(f"{len(written)} figures: {folder}", markup=False)
    next_steps(["report", source])
