"""`statetrace signatures`: the patching and probing results that each algorithm predicts."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import next_steps, note, out, working
from statetrace.config.options import path_named
from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.mechanisms.signatures import Signature

PICTURES = (".png", ".pdf", ".svg")
WIDTH = 80
LEGEND = (
    "To restore: how many of the first actions must be patched at layer 0, 1, 2, ... to restore "
    "the clean answer ('8 x3': 8 at three layers). Readable: at the last token."
)
TARGETS = {
    "state": "state",
    "parity linear": "parity, if linear",
    "parity hidden": "parity, if not linear",
}


def signatures(
    group: Annotated[
        str, typer.Option(help="The group: S5, A4xZ5, ..., a .json file or module:name.")
    ] = "S3",
    length: Annotated[int, typer.Option(help="Actions per sequence.")] = 32,
    pairs: Annotated[int, typer.Option(help="Pairs of sequences for the patching.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed of the sequences.")] = 0,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this algorithm; may be repeated. Besides the default, the paper's four: "
            "composed-quotient, strided, chunked.",
            metavar="NAME",
        ),
    ] = None,
    quotient: Annotated[
        str | None,
        typer.Option(
            help="The quotient that parity-associative or composed-quotient computes first "
            "(default: parity).",
            metavar="NAME",
        ),
    ] = None,
    stride: Annotated[
        int, typer.Option(help="Actions per layer of a strided fold, or per chunk.")
    ] = 4,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Figure file, .png, .pdf or .svg (default: signatures-GROUP-LENGTH.png).",
            metavar="FILE",
            parser=path_named,
        ),
    ] = None,
) -> None:
    """Predict patching, probing and dependencies for each algorithm.

    Draws Figure 1 B to D of the paper for any group, from the algorithms alone; no model is
    involved. The numbers are written beside the figure, as a .parquet file.
    """
    from statetrace import api
    from statetrace.groups import group as resolve_group

    picture = picture or Path(f"signatures-{resolve_group(group).name}-{length}.png")
    if picture.suffix.lower() not in PICTURES:
        raise StatetraceError(
            f"cannot draw '{picture}'; its name must end in {', '.join(PICTURES[:-1])} or "
            f"{PICTURES[-1]}"
        )
    if not picture.absolute().parent.is_dir():
        raise StatetraceError(f"cannot write '{picture}'; '{picture.parent}' is not a folder")

    numbers = picture.with_suffix(".parquet")
    with working("predicting"):
        predicted = api.signatures(
            group,
            length,
            algorithms=algorithm,
            quotient=quotient,
            stride=stride,
            pairs=pairs,
            seed=seed,
        )
        figure = predicted.figure()
        figure.write_table(numbers)
        figure.chart().save(picture)
    out.print(Text(figure.title, style="bold"))
    out.print(Text(fill(LEGEND, WIDTH)))
    for name, prediction in figure.signatures.items():
        out.print()
        if isinstance(prediction, str):
            out.print(Text(fill(prediction, WIDTH)))
        else:
            out.print(_summary(name, prediction))
    note(f"table: {numbers}\nfigure: {picture}")
    next_steps(["compile", "--group", group, "--length", length, "--out", "FOLDER"])


def _summary(name: str, signature: Signature) -> Table:
    table = Table(
        title=f"[bold]{name}[/bold]: {signature.layers}",
        title_justify="left",
        title_style="",
        show_header=False,
    )
    table.add_column(min_width=30)
    table.add_column(min_width=40, max_width=43)
    splits = [split for split in signature.pairs if split != "all"] or ["all"]
    for split in splits:
        pairs = "" if split == "all" else f", {split} parity"
        table.add_row(f"to restore{pairs}", _listed(signature.restores(split)))
    for target, grid in signature.probes().items():
        table.add_row(f"readable: {TARGETS[target]}", _readable(grid[:, -1].tolist()))
    return table


def _listed(numbers: list[int | None]) -> str:
    """By layer; "32 x5" for five equal layers, "1, 2, ..., 32" for a long list."""
    parts: list[str] = []
    runs: list[tuple[int | None, int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1] = (number, runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    for number, times in runs:
        shown = "never" if number is None else str(number)
        parts.append(shown if times == 1 else f"{shown} x{times}")
    if len(parts) > 12:
        parts = [*parts[:4], "...", *parts[-2:]]
    return ", ".join(parts)


def _readable(accuracy: list[float]) -> str:
    """The first layer of perfect accuracy, from the accuracies at layers 0, 1, ..."""
    perfect = [layer for layer, value in enumerate(accuracy) if value == 1]
    if not perfect:
        return f"nowhere ({accuracy[-1]:.0%})"
    first = perfect[0]
    return f"from layer {first}" + (f" ({accuracy[first - 1]:.0%} before)" if first else "")
