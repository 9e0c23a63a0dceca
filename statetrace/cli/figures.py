"""`statetrace figures`: the figures of a run as files for a paper, with the numbers beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import note, out
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError


def figures(
    run: Annotated[str, typer.Argument(help="A run or study folder, or zoo:NAME.")],
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to (default: figures in the run folder).",
            metavar="DIR",
            parser=path_named,
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", help="pdf or svg (vector), or png.", metavar="FORMAT")
    ] = "pdf",
    only: Annotated[
        str | None,
        typer.Option(help="Figures to draw, with commas (default: all).", metavar="NAMES"),
    ] = None,
) -> None:
    """Draw every figure as a file of a page's width with embedded fonts, and its table as CSV."""
    from statetrace.cli.sources import folder_of
    from statetrace.report.files import write_figures
    from statetrace.report.page import is_study

    source = folder_of(run)
    folder = target or source / "figures"
    if folder.exists() and not folder.is_dir():
        raise StatetraceError(f"'{folder}' is a file; --out should name a folder")
    wanted = None if only is None else [word.strip() for word in only.split(",") if word.strip()]
    made, missing = write_figures(source, folder, kind, wanted)
    if wanted and not made:
        raise StatetraceError("; ".join(missing))
    for sentence in missing:
        note(sentence)
    if not made:
        study = f"`statetrace study FILE --out {source}` trains its cells"
        first = study if is_study(source) else f"`statetrace analyze {source}` first"
        raise StatetraceError(f"'{source}' has nothing to draw yet; {first}")
    out.print(f"{len(made)} figures: {folder}", markup=False)
