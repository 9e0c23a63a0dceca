"""`statetrace verdict`: which algorithm does this model run?"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import lens_bars, out
from statetrace.cli.sources import tracked_model


def verdict(
    run: Annotated[
        str, typer.Argument(help="A run folder, a compiled model's folder, or zoo:NAME.")
    ],
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Use generalization alone, as the paper does early in training."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Report which algorithm a model runs, with its probability and the evidence of each lens.

    Uses the results of `statetrace analyze` in RUN/lenses. Missing results are computed, and so
    are results that describe other weights or have settings that a verdict cannot use. The
    mechanism is sequential, parallel, associative, parity-associative, mixed (no algorithm explains
    the lens results) or unlearned. Writes RUN/verdict.json.
    """
    model = tracked_model(run, device=device)
    if fast:
        judged = model.cutoff_verdict()
    else:
        with lens_bars(transient=True) as on_progress:
            model.verdict(on_progress)
        assert model.run is not None
        judged = json.loads((model.run.path / "verdict.json").read_text())
    if as_json:
        out.print(json.dumps(judged, indent=2), markup=False)
    else:
        _show(judged)


def _show(judged: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    for lens, evidence in judged["evidence"].items():
        table.add_row(Text(lens, style="bold"), Text(evidence["says"]))
    out.print(table)
    out.print()
    line = Text(judged["mechanism"], style="bold")
    if judged["mechanism"] != "unlearned":
        line.append(f", confidence {judged['confidence']:.0%}", style="not bold")
    line.append(f": {judged['says']}", style="not bold")
    out.print(line)
