"""`statetrace analyze`: run the lenses on a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import lens_bars, note, out
from statetrace.cli.sources import tracked_model
from statetrace.config.options import path_named, with_reading
from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.api import Results, TrackedModel

EXTERNAL = "A checkpoint that statetrace did not train"


@with_reading(EXTERNAL)
def analyze(
    *,
    run: Annotated[
        str | None, typer.Argument(help="A run folder, a compiled model's folder, or zoo:NAME.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Lenses to run, such as patching,probing (default: all).")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(help="The run's checkpoints: last, all, or steps separated by commas.")
    ] = "last",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A lens setting, such as patching.pairs=50; may be repeated."),
    ] = None,
    at_length: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Actions per sequence, if fewer than in training; able: the longest length that "
            "the model solves.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    model: Annotated[
        Path | None,
        typer.Option(
            help="A Hugging Face checkpoint that statetrace did not train.",
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
    out_: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The run folder to write.",
            rich_help_panel=EXTERNAL,
            metavar="DIR",
            parser=path_named,
        ),
    ] = None,
    reading: dict[str, Any],
) -> None:
    """Measure a trained model with the lenses of the paper.

    The lenses are generalization (accuracy by length, cutoffs), probing (what each layer encodes),
    patching (which activations the answer depends on), depth (layers needed by length), attention
    (parity heads, attention tree), geometry (the arrangement of the states) and dynamics (what was
    learned first).

    Results are written to RUN/lenses: a tidy table (parquet), arrays (safetensors) and a summary
    (json) for each lens. `statetrace lenses NAME` lists the settings of a lens, which --set
    changes: --set patching.grids=prefix-substitution-head or --set probing.subsets=5.

    A model that does not solve its full length is best analyzed with --at-length able. All lenses
    except generalization and dynamics then use sequences of the longest length that it solves;
    results at a shorter length are written to RUN/lenses/length-N.

    A checkpoint that statetrace did not train needs --model, --group, --length and --out, and
    --form text if it reads English. Bundled models are zoo:s3-associative,
    zoo:s3-parity-associative and others.
    """
    from statetrace.lenses.registry import chosen

    names = None if only is None else chosen(only)
    settings = _settings(setting or [], names)
    length_to_analyze = _length(at_length)
    if model is not None:
        if run is not None:
            raise StatetraceError(f"give a run folder ('{run}') or --model ('{model}'), not both")
        if out_ is None:
            raise StatetraceError(f"--model '{model}' also needs --out, a run folder to write")
        if checkpoint != "last":
            raise StatetraceError(f"--checkpoint {checkpoint} is for runs, not for --model")
        models = [_load_external(model, out_, device, reading)]
    elif run is not None:
        for option, value in reading.items():
            shown = f"--{option.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise StatetraceError(f"{shown} is for --model; '{run}' records its task")
        models = [tracked_model(run, out_, step, device) for step in _steps(run, checkpoint)]
    else:
        raise StatetraceError("nothing to analyze; give a run folder, or --model FOLDER")
    failures = []
    for tracked in models:
        failures += _analyze(tracked, names, settings, length_to_analyze)
    if failures:
        raise StatetraceError("; ".join(failures))


def _load_external(folder: Path, run: Path, device: str, reading: dict[str, Any]) -> TrackedModel:
    from statetrace.api import load

    start_marker, tokens = not reading.pop("no_start_marker", False), reading.pop("tokens", None)
    try:
        ids = None if tokens is None else [int(number) for number in tokens.split(",")]
    except ValueError:
        raise StatetraceError(f"--tokens '{tokens}' must be numbers separated by commas") from None
    reading |= {"tokens": ids, "start_marker": start_marker}
    return load(folder, out=run, device=device, on_message=note, **reading)


def _settings(assignments: list[str], names: list[str] | None) -> dict[str, dict[str, str]]:
    """`patching.pairs=50` as {"patching": {"pairs": "50"}}."""
    from statetrace.config.checks import known
    from statetrace.lenses.registry import LENSES

    settings: dict[str, dict[str, str]] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        lens, dot, field = name.partition(".")
        if not (equals and dot):
            raise StatetraceError(f"--set '{assignment}' should read like patching.pairs=50")
        known(lens, LENSES, "lens", f"--set '{assignment}'")
        if names is not None and lens not in names:
            raise StatetraceError(f"--set '{assignment}' has no effect: --only leaves {lens} out")
        settings.setdefault(lens, {})[field] = value
    return settings


def _length(text: str | None) -> int | str | None:
    from statetrace.analysis import ABLE

    if text is None or text == ABLE:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise StatetraceError(f"--at-length '{text}' should be a number of actions, or {ABLE}")
    return int(text)


def _steps(run: str, checkpoint: str) -> list[int | None]:
    if checkpoint == "last":
        return [None]
    target = tracked_model(run).run
    assert target is not None
    if target.external:
        raise StatetraceError(
            f"--checkpoint {checkpoint}: '{run}' was not trained here and is one checkpoint"
        )
    if checkpoint == "all":
        steps = [step for step, _ in target.checkpoints()]
        if not steps:
            raise StatetraceError(f"'{run}' has no checkpoint yet; train it first")
        return list(steps)
    try:
        return [int(step) for step in checkpoint.split(",")]
    except ValueError:
        raise StatetraceError(
            f"--checkpoint '{checkpoint}' should be last, all, or steps separated by commas"
        ) from None


def _analyze(
    model: TrackedModel,
    names: list[str] | None,
    settings: dict[str, dict[str, str]],
    at_length: int | str | None,
) -> list[str]:
    """Run the lenses on one checkpoint and print what they measured. Returns the failures."""
    keywords: dict[str, Any] = dict(settings)
    try:
        with lens_bars() as on_progress:
            results = model.analyze(names, at_length=at_length, on_progress=on_progress, **keywords)
    except StatetraceError as error:
        return [str(error)]
    _show(results)
    return [f"{lens}: {reason}" for lens, reason in results.failures.items()]


def _show(results: Results) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1, 1, 0))
    for name in results:
        for sentence in results[name].notes:
            out.print(f"{name}: {sentence}", markup=False)
        table.add_row(Text(name, style="bold"), Text(results[name].headline))
    out.print(table)
    for folder in results.folders:
        note(f"tables: {folder}")
