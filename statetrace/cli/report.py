"""`statetrace report`: the results of one run, or of several side by side, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from statetrace.cli.completion import complete_model
from statetrace.cli.console import next_steps, note, out, working
from statetrace.cli.sources import BUNDLED, EXTERNAL, folder_of
from statetrace.config.options import path_named, with_reading
from statetrace.errors import StatetraceError
from statetrace.runs import Run


@with_reading(EXTERNAL)
def report(
    *,
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run or study folders, zoo:NAME, or Hugging Face checkpoints; one or more. "
            + BUNDLED,
            metavar="RUN",
            autocompletion=complete_model,
        ),
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
    reading: dict[str, Any],
) -> None:
    """Write a page with the verdict and every figure from saved results.

    The page is one file that works offline. For a checkpoint that was not analyzed yet the verdict
    is computed first. Other missing results are listed with the command that computes them.
    """
    with working() as work:
        from statetrace import api

        folders = [folder_of(run, reading, work) for run in runs]
        target = target or folders[0] / "report.html"
        if target.is_dir():
            raise StatetraceError(f"'{target}' is a folder; --out must name a file")
        work.doing("drawing")
        api.report(folders, target)
    out.print(f"report: {target}", markup=False)
    note(f"{target.stat().st_size / 1e6:.1f} MB; open it in a browser, no network needed")
    # cells of a study that can be explored
    cells = sorted(step.parents[1] for step in folders[0].glob("cells/*/checkpoints/step-*"))
    if cells or (Run(folders[0]).exists() and Run(folders[0]).has_weights):
        next_steps(["explore", *(cells or folders)[:1]])
