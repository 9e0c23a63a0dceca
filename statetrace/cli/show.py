"""`statetrace show`: the accuracy of a trained model, as a table and a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from statetrace.cli.completion import complete_run
from statetrace.cli.console import next_steps, note, out
from statetrace.config.checks import need, no_folder
from statetrace.runs import Run

if TYPE_CHECKING:
    from statetrace.reports.accuracy import AccuracyTable

MOST_ROWS = 20


def show(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder written by `statetrace train`.", autocompletion=complete_run
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show the state and parity accuracy of a trained model, by length.

    Also writes the numbers to accuracy.csv and a figure to accuracy.png in the run folder.
    """
    from statetrace.reports.accuracy import AccuracyTable

    need(run.is_dir(), no_folder(str(run)))
    measured = AccuracyTable.of(Run.existing(run))
    if as_json:
        out.print(json.dumps(_as_json(measured), indent=2), markup=False)
        return
    steps = f", after {measured.steps[-1]:,} steps" if measured.steps else ""
    out.print(
        f"Accuracy on held-out sequences ({measured.source}): {measured.title}{steps}",
        style="italic",
        markup=False,
    )
    table = Table()
    table.add_column("length", justify="right")
    for what in measured.by_length:
        table.add_column(what, justify="right")
    rows = measured.rows()
    every = -(-len(rows) // MOST_ROWS)
    for length, values in rows:
        if length == 1 or length % every == 0 or length in (measured.training_length, len(rows)):
            table.add_row(str(length), *(f"{value:.1%}" for value in values.values()))
            if length == measured.training_length:
                table.add_section()
    table.add_section()
    table.add_row(
        f"mean 1-{measured.training_length}",
        *(f"{measured.mean(what):.1%}" for what in measured.by_length),
    )
    table.add_row("chance", *(f"{measured.chance[what]:.1%}" for what in measured.by_length))
    out.print(table)
    measured.write_csv(run / "accuracy.csv")
    measured.chart().save(run / "accuracy.png")
    note(f"table: {run / 'accuracy.csv'}\nfigure: {run / 'accuracy.png'}")
    next_steps(["verdict", run], ["report", run])


def _as_json(measured: AccuracyTable) -> dict[str, Any]:
    return {
        "title": measured.title,
        "training_length": measured.training_length,
        "steps": measured.steps[-1] if measured.steps else None,
        "accuracy_by_length": {what: list(row) for what, row in measured.by_length.items()},
        "mean": {what: measured.mean(what) for what in measured.by_length},
        "chance": dict(measured.chance),
    }
