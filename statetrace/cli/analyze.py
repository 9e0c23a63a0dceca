"""`statetrace analyze`: look at a trained model through the lenses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import err, note, out
from statetrace.errors import StatetraceError
from statetrace.runs import Run

_FOREIGN = "A checkpoint from elsewhere"


def analyze(
    run: Annotated[
        Path | None, typer.Argument(help="A run folder that `statetrace train` wrote.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Some lenses, with commas: patching,probing.")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(help="Which of the run's checkpoints: last, all, or steps with commas.")
    ] = "last",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A lens's setting, as patching.pairs=50; may be repeated."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    model: Annotated[
        Path | None,
        typer.Option(
            help="A Hugging Face checkpoint that statetrace did not train.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Its group.", rich_help_panel=_FOREIGN)] = None,
    length: Annotated[
        int | None, typer.Option(help="Its training length.", rich_help_panel=_FOREIGN)
    ] = None,
    out_: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder to write.", rich_help_panel=_FOREIGN),
    ] = None,
    notation: Annotated[
        str, typer.Option(help="'moves' or 'receives'.", rich_help_panel=_FOREIGN)
    ] = "moves",
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Token id of each element, in the order of the group's labels, with commas "
            "(default 0,1,2,...).",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    start_token: Annotated[
        int | None,
        typer.Option(
            help="Token id of the start marker (default the one after the last element).",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    no_start_marker: Annotated[
        bool,
        typer.Option(
            "--no-start-marker",
            help="Its sequences begin with the first action.",
            rich_help_panel=_FOREIGN,
        ),
    ] = False,
) -> None:
    """Look at a trained model through the lenses of the paper.

    Results go into RUN/lenses: a tidy table (parquet), arrays (safetensors) and a summary (json)
    for each lens. A checkpoint from elsewhere is read with --model, --group, --length and --out.
    """
    from statetrace.lenses.registry import LENSES, chosen

    names = chosen(only)
    settings = _settings(setting or [], LENSES)
    if model is not None:
        target = _adopt(model, group, length, out_, notation, tokens, start_token, no_start_marker)
        names = [name for name in names if not LENSES[name].reads_log]
    elif run is not None:
        target = Run.existing(run)
    else:
        raise StatetraceError("nothing to look at: give a run folder, or --model FOLDER")
    for step in _steps(target, checkpoint):
        _look(target, step, names, settings, device)


def _settings(words: list[str], lenses: Any) -> dict[str, dict[str, str]]:
    from statetrace.training.recipe import known

    found: dict[str, dict[str, str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        lens, dot, field = name.partition(".")
        if not (equals and dot):
            raise StatetraceError(f"--set '{word}' should read like patching.pairs=50")
        known(lens, lenses, "lens", f"--set '{word}'")
        found.setdefault(lens, {})[field] = value
    return found


def _adopt(
    model: Path,
    group: str | None,
    length: int | None,
    target: Path | None,
    notation: str,
    tokens: str | None,
    start_token: int | None,
    no_start_marker: bool,
) -> Run:
    """Write a run.json that says how to read someone else's checkpoint."""
    from statetrace.lenses.subject import Foreign

    if group is None or length is None or target is None:
        given = {"--group": group, "--length": length, "--out": target}
        missing = ", ".join(name for name, value in given.items() if value is None)
        raise StatetraceError(f"--model '{model}' also needs {missing}")
    run = Run(target)
    ids = None
    if tokens is not None:
        try:
            ids = tuple(int(word) for word in tokens.split(","))
        except ValueError:
            raise StatetraceError(f"--tokens '{tokens}' should be numbers with commas") from None
    reading = Foreign(group, length, notation, ids, not no_start_marker, start_token)
    about = dataclasses.asdict(reading) | {"folder": str(model.resolve())}
    if run.exists() and run.info.get("foreign") != _as_json(about):
        raise StatetraceError(f"'{target}' already holds another run; choose another --out")
    from statetrace.lenses.subject import from_checkpoint

    from_checkpoint(model, reading, "cpu")  # refuses before anything is written
    run.write_info({"format": 1, "foreign": _as_json(about)})
    return run


def _as_json(about: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in about.items()}


def _steps(run: Run, wanted: str) -> list[int | None]:
    if wanted == "last":
        return [None]
    if wanted == "all":
        return [step for step, _ in run.checkpoints()]
    try:
        return [int(word) for word in wanted.split(",")]
    except ValueError:
        raise StatetraceError(
            f"--checkpoint '{wanted}' should be last, all, or steps with commas"
        ) from None


def _look(
    run: Run, step: int | None, names: list[str], settings: dict[str, dict[str, str]], device: str
) -> None:
    from statetrace.lenses.registry import LENSES, make_spec
    from statetrace.lenses.subject import from_run
    from statetrace.report.headlines import headlines

    specs = {}
    for name in names:
        words = dict(settings.get(name, {}))
        if LENSES[name].reads_log:
            words.setdefault("run", str(run.path))
        specs[name] = make_spec(name, words)
    subject = from_run(run, step, device)
    folder = run.path / "lenses" / ("" if step is None else f"step-{step}")
    with Progress(
        TextColumn("{task.description:15}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=err,
        disable=not err.is_terminal,
    ) as progress:
        for name in names:
            bar = progress.add_task(name, total=1.0)
            result = LENSES[name].look(
                subject.model,
                subject.task,
                specs[name],
                lambda share, bar=bar: progress.update(bar, completed=share),
            )
            progress.update(bar, completed=1.0)
            progress.stop_task(bar)
            result.save(folder)
            for sentence in result.notes:
                out.print(f"{name}: {sentence}", markup=False)
    table = Table(show_header=False, box=None, padding=(0, 1, 1, 0))
    for name, sentence in headlines(folder).items():
        if name in names:
            table.add_row(Text(name, style="bold"), Text(sentence))
    out.print(table)
    note(f"tables: {folder}")
