"""`statetrace demo`: from nothing to a trained model, its report and its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import note
from statetrace.config.options import path_named


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="The run folder to write.", metavar="DIR", parser=path_named)
    ] = Path("runs/demo"),
) -> None:
    """Train a small model on the CPU, analyze it and report which algorithm it runs.

    Takes about five minutes and needs no network. Interrupt it at any time: the same command
    continues where it stopped. Every step is a command of its own, which is printed before it runs.
    """
    from statetrace import api

    def run(*words: object) -> None:
        command = list(map(str, words))
        note(f"\n$ statetrace {' '.join(command)}")
        status = context.find_root().command.main(command, standalone_mode=False)
        if status:
            raise typer.Exit(status)

    run("train", "demo", "--out", out, "--resume")
    run("analyze", out)
    run("show", out)
    api.load(out).verdict()  # written before the report, which shows it; printed last
    run("report", out)
    run("verdict", out)
