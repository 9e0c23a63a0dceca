"""`statetrace compile`: write a transformer whose algorithm is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from statetrace.cli.console import note
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
        typer.Option(help="Sequences to check it on: all there are, if they are not more."),
    ] = 1000,
    spec: Any,
) -> None:
    """Write a transformer that runs a known algorithm.

    Nothing is trained: the weights are computed, and go into a stock Hugging Face GPT-2. The folder
    can be loaded with AutoModelForCausalLM, and it is a run folder too: `statetrace analyze FOLDER`
    and `statetrace verdict FOLDER` look at it.

    Not every algorithm exists for every group: parallel needs a solvable one, parity-associative
    one with parity. Of groups beyond 24 elements only S5 and A5 will do.
    """
    from statetrace.lenses.compiled import check_compiled, save_compiled
    from statetrace.models.compiled import compile_model

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StatetraceError(f"'{out}' already exists; choose another --out")
    if check < 0:
        raise StatetraceError(f"--check {check} is negative; use 0 to check nothing")
    model = compile_model(spec)
    size = model.config
    sizes = f"{size.n_layer} layers, width {size.n_embd}, {size.n_head} heads"
    accuracy, tried, exhaustive = check_compiled(model, spec, check)
    save_compiled(model, spec, out)
    printed.print(f"{spec.algorithm}, {spec.group}, length {spec.length}: {sizes}", markup=False)
    if tried:
        which = "all" if exhaustive else "random"
        printed.print(f"right after {accuracy:.2%} of the actions of {tried:,} sequences ({which})")
    note(f"next: statetrace verdict {out}")
