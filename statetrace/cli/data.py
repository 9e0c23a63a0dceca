"""`statetrace data`: write unique sequences and their states to disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statetrace.cli.console import next_steps, note
from statetrace.config.options import NOTATION, path_named
from statetrace.errors import StatetraceError


def data(
    out: Annotated[
        Path, typer.Option(help="The folder to write.", metavar="DIR", parser=path_named)
    ],
    group: Annotated[
        str, typer.Option(help="The group: S5, A4xZ5, ..., a .json file or module:name.")
    ] = "S3",
    length: Annotated[int, typer.Option(help="Actions per sequence.")] = 100,
    sequences: Annotated[int, typer.Option(help="Number of unique sequences.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the sequences.")] = 0,
    actions: Annotated[
        str,
        typer.Option(
            help="Elements that occur as actions: all, transpositions, or labels separated by "
            "commas."
        ),
    ] = "all",
    notation: Annotated[str, typer.Option(help=NOTATION)] = "moves",
) -> None:
    """Write unique action sequences and their states to disk.

    Training draws its own sequences; this command is for using the same ones elsewhere. The folder
    holds two numpy arrays, actions.npy and states.npy, and can be passed to `statetrace train
    --data`.
    """
    from statetrace.config.checks import check_seed
    from statetrace.groups import group as resolve_group
    from statetrace.tasks.sequences import unique_sequences

    if (out / "sequences.json").exists():
        raise StatetraceError(f"'{out}' already holds sequences; choose another --out")
    check_seed("seed", seed)
    states = resolve_group(group, notation)
    alphabet = None if actions == "all" else states.generators(actions)
    unique_sequences(states, sequences, length, seed, alphabet).save(out, states)
    note(f"{sequences:,} sequences of {length} actions of {states.name}: {out}")
    next_steps(["train", "--data", out, "--group", group, "--length", length, "--out", "runs/NAME"])
