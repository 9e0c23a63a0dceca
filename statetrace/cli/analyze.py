"""`statetrace analyze`: run the lenses on a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from statetrace.cli.completion import complete_lenses
from statetrace.cli.console import next_steps, note, out, print_table, warn, working
from statetrace.cli.sources import DEVICE, EXTERNAL, MODEL, RESULTS, tracked_model
from statetrace.config.options import with_reading
from statetrace.errors import StatetraceError, by_reason

if TYPE_CHECKING:
    from statetrace.api import Results


@with_reading(EXTERNAL)
def analyze(
    *,
    run: Annotated[str | None, MODEL] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Lenses to run, such as patching,probing (default: all).",
            autocompletion=complete_lenses,
        ),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="The paper's settings: more pairs, heat maps, probes and controls. Takes several "
            "times longer.",
        ),
    ] = False,
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
            help="Actions per sequence, if fewer than in training; able: the solved length.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    device: Annotated[str, DEVICE] = "auto",
    model: Annotated[str | None, typer.Option(hidden=True)] = None,
    out_: RESULTS = None,
    reading: dict[str, Any],
) -> None:
    """Measure a trained model with lenses such as probing and patching.

    The lenses are generalization (accuracy by length, cutoffs), probing (what each layer encodes),
    patching (which activations the answer depends on), depth (layers needed by length), attention
    (parity heads, attention tree), geometry (the arrangement of the states) and dynamics (what was
    learned first). Only on request (--only subspace): subspace (exchanges the part of the residual
    stream that carries parity).

    The settings are light by default; --thorough uses the paper's. Results are written to
    RUN/lenses, each as soon as it is done: a tidy table (parquet), arrays (safetensors) and a
    summary (json). After Ctrl-C the same command continues. `statetrace lenses NAME` lists the
    settings of a lens, which --set changes: --set patching.grids=prefix-substitution-head or --set
    probing.subsets=5.

    A model that does not solve its full length is best analyzed with --at-length able. All lenses
    except generalization and dynamics then use sequences of its solved length (see glossary);
    results at a shorter length are written to RUN/lenses/length-N.

    A Hugging Face checkpoint that statetrace did not train needs --group and --length, and --form
    text if it reads English.
    """
    with working() as work:
        from statetrace.lenses.registry import chosen

        names = None if only is None else chosen(only)
        settings = _settings(setting or [], names)
        length_to_analyze = _length(at_length)
        if model is not None and run is not None:
            raise StatetraceError(f"give a run folder ('{run}') or --model ('{model}'), not both")
        source = model or run
        if source is None:
            raise StatetraceError(
                "nothing to analyze; give a run folder, a Hugging Face checkpoint with --group and "
                "--length, or a bundled model, as in `statetrace analyze zoo:s3-associative`"
            )
        models = [
            tracked_model(source, reading, out_, step, device, "analyze")
            for step in _steps(source, reading, out_, checkpoint)
        ]
        everything, failures = [], []
        for tracked in models:
            try:
                results = tracked.analyze(
                    names,
                    at_length=length_to_analyze,
                    thorough=thorough,
                    on_progress=work.lens,
                    on_estimate=work.estimate,
                    **settings,
                )
            except StatetraceError as error:
                failures.append(str(error))
                continue
            everything.append(results)
            failures += by_reason(results.failures)
    if as_json:
        out.print(json.dumps([_as_json(results) for results in everything], indent=2), markup=False)
    else:
        for results in everything:
            _show(results)
    if failures:
        raise StatetraceError("; ".join(dict.fromkeys(failures)))
    if not as_json:
        assert models[0].run is not None
        folder = models[0].run.path
        next_steps(["verdict", folder], ["report", folder])


def _settings(assignments: list[str], names: list[str] | None) -> dict[str, Any]:
    """`patching.pairs=50` as {"patching": {"pairs": "50"}}."""
    from statetrace.config.checks import known
    from statetrace.lenses.registry import LENSES

    settings: dict[str, Any] = {}
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


def _steps(
    run: str, reading: dict[str, Any], out: Path | None, checkpoint: str
) -> list[int | None]:
    if checkpoint == "last":
        return [None]
    target = tracked_model(run, reading, out, command="analyze").run
    assert target is not None
    if target.external:
        raise StatetraceError(
            f"--checkpoint {checkpoint}: '{run}' has a single checkpoint; leave --checkpoint out"
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


def _show(results: Results) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1, 1, 0))
    for name in results:
        headline = results[name].headline or "no numbers; the reason is below"
        table.add_row(Text(name, style="bold"), Text(headline))
    print_table(table)
    for folder in results.folders:
        note(f"tables: {folder}")
    for name in results:
        for sentence in results[name].notes:
            warn(f"{name}: {sentence}")
    if "generalization" in results:
        from statetrace.mechanisms.mastery import has_learned, solved_length

        general = results["generalization"]
        if not has_learned(general):
            warn(
                f"the model has not learned the task: its solved length is "
                f"{solved_length(general)}, so the other lenses show no mechanism"
            )


def _as_json(results: Results) -> dict[str, Any]:
    lenses = {
        name: {
            "headline": results[name].headline,
            "summary": dict(results[name].summary),
            "notes": list(results[name].notes),
            "settings": dict(results[name].spec),
        }
        for name in results
    }
    return {
        "length": results.length,
        "lenses": lenses,
        "failures": results.failures,
        "folders": [str(folder) for folder in results.folders],
    }
