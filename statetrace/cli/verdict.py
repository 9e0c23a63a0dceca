"""`statetrace verdict`: which algorithm does this model run?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import next_steps, out, print_table, working
from statetrace.cli.sources import DEVICE, EXTERNAL, MODEL, RESULTS, tracked_model
from statetrace.config.options import with_reading
from statetrace.files import read_json

if TYPE_CHECKING:
    from statetrace.mechanisms.verdict import Verdict


@with_reading(EXTERNAL)
def verdict(
    *,
    run: Annotated[str, MODEL],
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Use generalization alone, as the paper does early in training."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    device: Annotated[str, DEVICE] = "auto",
    out_: RESULTS = None,
    reading: dict[str, Any],
) -> None:
    """Report which algorithm a model runs, with its probability and the evidence of each lens.

    For your own Hugging Face checkpoint, state what it was trained on: `statetrace verdict FOLDER
    --group S3 --length 14`.

    Uses the results of `statetrace analyze` in RUN/lenses. Missing results are computed, and so
    are results that describe other weights or have settings that a verdict cannot use. The
    mechanism is sequential, parallel, associative, parity-associative, composed-quotient, mixed
    (two computations share the logits), other (no known algorithm), undecided (no mechanism
    reaches 80%) or unlearned. Writes RUN/verdict.json. After Ctrl-C the same command continues.
    """
    full: Verdict | None = None
    with working() as work:
        model = tracked_model(run, reading, out_, device=device)
        assert model.run is not None
        model.light = True
        if fast:
            judged = model.cutoff_verdict()
        else:
            full = model.verdict(work.lens, work.estimate)
            judged = read_json(model.run.path / "verdict.json")
    if as_json:
        out.print(json.dumps(judged, indent=2), markup=False)
        return
    _show(judged, full)
    folder = model.run.path
    if judged["mechanism"] == "unlearned" and model.run.external:
        next_steps(
            "check its task (--group, --length) and its encoding (--notation, --start-token, "
            "--tokens), or train it longer"
        )
    elif fast:
        next_steps(["verdict", folder])
    elif model.has_weights:
        from statetrace.reports.run_results import newest

        shorter = newest(folder).shorter_length
        at_length = [] if shorter is None else ["--at-length", shorter]
        next_steps(["analyze", folder, *at_length], ["report", folder], ["explore", folder])
    else:
        next_steps(["report", folder])


def _show(judged: dict[str, Any], full: Verdict | None) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    sentences = {lens: part["says"] for lens, part in judged["evidence"].items()}
    for lens, says in (sentences if full is None else full.sentences).items():
        if says != judged["says"]:  # else it is in the last line: not learned
            table.add_row(Text(lens, style="bold"), Text(says))
    if table.row_count:
        print_table(table)
        out.print()
    line = Text(judged["mechanism"], style="bold")
    if judged["mechanism"] not in ("unlearned", "undecided"):
        line.append(f", confidence {judged['confidence']:.0%}", style="not bold")
    line.append(f": {judged['says']}", style="not bold")
    if full is not None and full.probabilities:
        from statetrace.mechanisms.verdict import accuracy_on_trained_models

        out.print(f"calibration: {accuracy_on_trained_models()}")
    out.print(line)
    if "hint" in judged:
        out.print(f"hint: {judged['hint']}", markup=False)
