"""`statetrace demo`: from nothing to a trained model, its report and its verdict."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import next_steps, note, without_next_steps
from statetrace.config.options import path_named


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="The run folder to write.", metavar="DIR", parser=path_named)
    ] = Path("runs/demo"),
) -> None:
    """Train a small model on the CPU, analyze it and report how it computes the state.

    Takes about five minutes and needs no network. Interrupt it at any time: the same command
    continues where it stopped. Every step is a command of its own, which is printed before it runs.
    """
    from statetrace import api
    from statetrace.mechanisms.cutoff_verdict import UNDECIDED

    def run(*words: object) -> None:
        command = list(map(str, words))
        note(f"\n$ {shlex.join(['statetrace', *command])}")
        with without_next_steps():
            status = context.find_root().command.main(command, standalone_mode=False)
        if status:
            note("the same command continues the demo")
            raise typer.Exit(status)

    run("train", "demo", "--out", out, "--resume")
    run("analyze", out, "--thorough")
    run("show", out)
    verdict = api.load(out).verdict()  # the report shows it, and it is printed last
    run("report", out)
    note("")
    next_steps(f"open {out / 'report.html'} in a browser", ["explore", out])
    run("verdict", out)
    if verdict.mechanism == UNDECIDED:
        note(
            "\nundecided is common for small models: they lie between known algorithms (see the "
            "map in the report)"
        )
