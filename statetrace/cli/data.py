"""`statetrace data`: write unique sequences and their states to disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import note
from statetrace.config.options import NOTATION, path_named
from statetrace.errors import StatetraceError


def data(
    out: Annotated[
        Path, typer.Option(help="The folder to write.", metavar="DIR", parser=path_named)
    ],
    group: Annotated[str, typer.Option(help="The group: S5, A5, Z60, D6, A4xZ5, ...")] = "S3",
    length: Annotated[int, typer.Option(help="Actions per sequence.")] = 100,
    sequences: Annotated[int, typer.Option(help="How many, all different.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Which sequences are drawn.")] = 0,
    actions: Annotated[
        str, typer.Option(help="all, transpositions, or labels with commas.")
    ] = "all",
    notation: Annotated[str, typer.Option(help=NOTATION)] = "moves",
) -> None:
    """Write unique action sequences and their states to disk.

    Training draws its own sequences; this is for using the same ones elsewhere. The folder holds
    two plain numpy arrays, actions.npy and states.npy, and can be given to `statetrace train
    --data`.
    """
    from statetrace.config.checks import check_seed
    from statetrace.groups import group as named
    from statetrace.tasks.sequences import unique_sequences

    if (out / "sequences.json").exists():
        raise StatetraceError(f"'{out}' already holds sequences; choose another --out")
    check_seed("seed", seed)
    of = named(group, notation)
    chosen = None if actions == "all" else of.generators(actions)
    unique_sequences(of, sequences, length, seed, chosen).save(out, of)
    note(f"{sequences:,} sequences of {length} actions of {of.name}: {out}")
