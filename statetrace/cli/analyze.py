"""`statetrace analyze`: run the lenses on a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import lens_bars, note, out
from statetrace.cli.sources import tracked_model
from statetrace.config.options import NOTATION, path_named
from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.api import Results, TrackedModel

EXTERNAL = "A checkpoint that statetrace did not train"


def analyze(
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
    group: Annotated[
        str | None,
        typer.Option(
            help="The group it was trained on: S3, a .json file or module:name.",
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Actions per training sequence.", rich_help_panel=EXTERNAL)
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
    notation: Annotated[str, typer.Option(help=NOTATION, rich_help_panel=EXTERNAL)] = "moves",
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Token id of each element, in the order of the group's labels, separated by "
            "commas (default: 0,1,2,...; for text, the tokens that spell the states).",
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
    start_token: Annotated[
        int | None,
        typer.Option(
            help="Token id of the start marker (default: the one after the last element; for text, "
            "`<start>`, if there is one).",
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
    no_start_marker: Annotated[
        bool,
        typer.Option(
            "--no-start-marker",
            help="Sequences begin with the first action, without a marker.",
            rich_help_panel=EXTERNAL,
        ),
    ] = False,
    form: Annotated[
        str,
        typer.Option(
            help="How actions are written: tokens (one each), or text, read with the checkpoint's "
            "tokenizer.json; the state is predicted at each period.",
            rich_help_panel=EXTERNAL,
        ),
    ] = "tokens",
    paraphrases: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="text: number of built-in paraphrases per action.",
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
    phrases: Annotated[
        Path | None,
        typer.Option(
            help="text: sentences to use instead, a JSON file: "
            '{"132": "Swap positions 2 and 3.", ...}.',
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
    padding: Annotated[
        str | None,
        typer.Option(
            help="text: whether padding is visible to the model: hidden (plain text, the default) "
            "or visible (as to models trained by `statetrace train`).",
            rich_help_panel=EXTERNAL,
        ),
    ] = None,
) -> None:
    """Measure a trained model with the lenses of the paper.

    The lenses are generalization (accuracy by length, cutoffs), probing (what each layer encodes),
    patching (which activations the answer depends on), depth (layers needed by length), attention
    (parity heads, attention tree), geometry (the arrangement of the states) and dynamics (what was
    learned first).

    Results are written to RUN/lenses: a tidy table (parquet), arrays (safetensors) and a summary
    (json) for each lens. The settings of a lens are the fields of its spec, for instance
    --set patching.grids=prefix-substitution-head or --set probing.subsets=5.

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
            raise StatetraceError(
                f"--checkpoint {checkpoint} is for runs; --model is one checkpoint"
            )
        external = _external(group, length, notation, tokens, start_token, no_start_marker)
        external |= {"form": form, "paraphrases": paraphrases, "phrases": phrases}
        models = [_load_external(model, out_, device, external | {"padding": padding})]
    elif run is not None:
        unused = {"--group": group, "--length": length, "--tokens": tokens, "--phrases": phrases}
        unused |= {"--start-token": start_token, "--no-start-marker": no_start_marker or None}
        unused |= {"--form": None if form == "tokens" else form, "--paraphrases": paraphrases}
        for flag, value in (unused | {"--padding": padding}).items():
            if value is not None:
                raise StatetraceError(f"{flag} {value} is for --model; '{run}' records its task")
        steps = _steps(run, checkpoint)
        models = [tracked_model(run, out_, step, device) for step in steps]
    else:
        raise StatetraceError("nothing to analyze; give a run folder, or --model FOLDER")
    failures = []
    for tracked in models:
        failures += _analyze(tracked, names, settings, length_to_analyze)
    if failures:
        raise StatetraceError("; ".join(failures))


def _external(
    group: str | None,
    length: int | None,
    notation: str,
    tokens: str | None,
    start_token: int | None,
    no_start_marker: bool,
) -> dict[str, Any]:
    """How to read a checkpoint, as `st.load` takes it."""
    try:
        ids = None if tokens is None else [int(word) for word in tokens.split(",")]
    except ValueError:
        raise StatetraceError(
            f"--tokens '{tokens}' should be numbers separated by commas"
        ) from None
    return {
        "group": group,
        "length": length,
        "notation": notation,
        "tokens": ids,
        "start_token": start_token,
        "start_marker": not no_start_marker,
    }


def _load_external(folder: Path, run: Path, device: str, reading: dict[str, Any]) -> TrackedModel:
    from statetrace.api import load

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
