"""`statetrace report`: the results of one run, or of several side by side, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import note, out
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError


def report(
    runs: Annotated[
        list[str],
        typer.Argument(help="Run or study folders, or zoo:NAME; one or more.", metavar="RUN..."),
    ],
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Output file (default: report.html in the first run folder).",
            metavar="FILE",
            parser=path_named,
        ),
    ] = None,
) -> None:
    """Write a page with the verdict and every figure from saved results.

    The page is one file that works offline. Missing results are listed with the command that
    computes them.
    """
    from statetrace import api
    from statetrace.cli.sources import folder_of

    folders = [folder_of(run) for run in runs]
    target = target or folders[0] / "report.html"
    if target.is_dir():
        raise StatetraceError(f"'{target}' is a folder; --out must name a file")
    api.report(folders, target)
    out.print(f"report: {target}", markup=False)
    note(f"{target.stat().st_size / 1e6:.1f} MB; open it in a browser, no network needed")
