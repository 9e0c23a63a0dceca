"""`statetrace compile`: write a transformer whose algorithm is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from statetrace.cli.console import next_steps, working
from statetrace.cli.console import out as printed
from statetrace.config.compile_spec import CompileSpec
from statetrace.config.options import path_named, with_fields
from statetrace.errors import StatetraceError


@with_fields(CompileSpec)
def compile_(
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write.", metavar="DIR", parser=path_named)
    ],
    check: Annotated[
        int,
        typer.Option(help="Sequences to check the model on, or all if there are fewer."),
    ] = 1000,
    spec: Any,
) -> None:
    """Write a transformer that runs a known algorithm.

    Nothing is trained: the weights of a stock Hugging Face GPT-2 are computed. The folder can be
    loaded with AutoModelForCausalLM. It is also a run folder, for `statetrace analyze FOLDER` and
    `statetrace verdict FOLDER`.

    Not every algorithm exists for every group: parallel needs a solvable group, parity-associative
    one with parity, composed-quotient one with a quotient. Of the groups with more than 24 elements
    only S5 and A5 are supported. A lookup table has at most 25,000 rows: S3 up to length 5, D4 and
    A4 up to 4, S4 up to 3.

    --second adds a second algorithm, computed in the same layers: both give the correct answer, and
    --share is its share of the logits.
    """
    if check < 0:
        raise StatetraceError(f"--check {check} is negative; use 0 to check nothing")
    with working("compiling"):
        from statetrace import api
        from statetrace.lenses.compiled import check_compiled

        model = api.compile(**dataclasses.asdict(spec), out=out).model
        size = model.config
        layers = f"{size.n_layer} layer{'' if size.n_layer == 1 else 's'}"
        sizes = f"{layers}, width {size.n_embd}, {size.n_head} heads"
        accuracy, checked, exhaustive = check_compiled(model, spec, check)
    printed.print(f"{spec.title}, {spec.group}, length {spec.length}: {sizes}", markup=False)
    if checked:
        which = "all" if exhaustive else "random"
        printed.print(f"accuracy {accuracy:.2%} on {checked:,} sequences ({which})")
    next_steps(["verdict", out])
