"""`statetrace analyze`: look at a trained model through the lenses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import TaskID
from rich.table import Table
from rich.text import Text

from statetrace.cli import foreign
from statetrace.cli.console import bars, note, out
from statetrace.cli.subjects import ZOO, run_named
from statetrace.config.options import NOTATION, path_named
from statetrace.errors import StatetraceError
from statetrace.runs import Run

if TYPE_CHECKING:
    from statetrace.lenses.loading import LoadedModel
    from statetrace.tasks.word_problem import WordProblem

_FOREIGN = "A checkpoint from elsewhere"
ABLE = "able"


def analyze(
    run: Annotated[
        str | None, typer.Argument(help="A run folder, a compiled model's folder, or zoo:NAME.")
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
    at_length: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Actions per sequence to look at, if fewer than it was trained on; able: as many "
            "as it gets right.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    model: Annotated[
        Path | None,
        typer.Option(
            help="A Hugging Face checkpoint that statetrace did not train.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="The group it was trained on, such as S3.", rich_help_panel=_FOREIGN),
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Actions per training sequence.", rich_help_panel=_FOREIGN)
    ] = None,
    out_: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The run folder to write.",
            rich_help_panel=_FOREIGN,
            metavar="DIR",
            parser=path_named,
        ),
    ] = None,
    notation: Annotated[str, typer.Option(help=NOTATION, rich_help_panel=_FOREIGN)] = "moves",
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Token id of each element, in the order of the group's labels, with commas "
            "(default 0,1,2,...; for text the tokens that spell the states).",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    start_token: Annotated[
        int | None,
        typer.Option(
            help="Token id of the start marker (default the one after the last element; for text "
            "`<start>`, if there is one).",
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
    form: Annotated[
        str,
        typer.Option(
            help="How it was told actions: tokens (one each), or text, read with its own "
            "tokenizer.json; the state is asked for at each period.",
            rich_help_panel=_FOREIGN,
        ),
    ] = "tokens",
    paraphrases: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="text: wordings in use, of `train`'s own.", rich_help_panel=_FOREIGN
        ),
    ] = None,
    phrases: Annotated[
        Path | None,
        typer.Option(
            help='text: its own sentences, as JSON: {"132": "Swap positions 2 and 3.", ...}.',
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    padding: Annotated[
        str | None,
        typer.Option(
            help="text: whether it sees what fills sentences up to one length: hidden (plain text, "
            "the default) or visible (as models of `train` do).",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
) -> None:
    """Look at a trained model through the lenses of the paper.

    They are: generalization (accuracy by length, cutoffs), probing (what each layer knows),
    patching (which activations the answer depends on), depth (layers needed by length), attention
    (parity heads, attention tree), geometry (the shape of the states) and dynamics (what was
    learned first).

    Results go into RUN/lenses: a tidy table (parquet), arrays (safetensors) and a summary (json)
    for each lens. Settings of a lens are the fields of its spec, for instance
    --set patching.grids=prefix-substitution-head or --set probing.subsets=5. A model that is still
    learning is best looked at where it is right, with --at-length able: then all lenses but
    generalization and dynamics look at sequences of that length, and write to lenses/length-N if
    it is a shorter one.

    A checkpoint from elsewhere is read with --model, --group, --length and --out, one that reads
    English also with --form text; models that come with statetrace are zoo:s3-associative,
    zoo:s3-parity-associative and others.
    """
    from statetrace.lenses.registry import LENSES, chosen

    names = chosen(only)
    settings = _settings(setting or [], names)
    theirs = {"--group": group, "--length": length, "--out": out_, "--tokens": tokens}
    theirs |= {"--start-token": start_token, "--no-start-marker": no_start_marker or None}
    theirs |= {"--form": None if form == "tokens" else form, "--paraphrases": paraphrases}
    theirs |= {"--phrases": phrases, "--padding": padding}
    if no_start_marker and start_token is not None:
        raise StatetraceError(f"--start-token {start_token} contradicts --no-start-marker")
    if model is not None:
        if run is not None:
            raise StatetraceError(f"give a run folder ('{run}') or --model ('{model}'), not both")
        how = {"notation": notation, "tokens": foreign.ids(tokens), "start_token": start_token}
        how |= {"start_marker": not no_start_marker}
        how |= foreign.words(model, form, paraphrases, phrases, padding)
        target = foreign.adopt(model, group, length, out_, how)
    elif run is not None:
        if run.startswith(ZOO):
            theirs.pop("--out")
        given = [f"{name} {value}" for name, value in theirs.items() if value is not None]
        if given:
            raise StatetraceError(f"{given[0]} is for --model; '{run}' says itself how to read it")
        target = run_named(run, out_)
    else:
        raise StatetraceError("nothing to look at: give a run folder, or --model FOLDER")
    if "foreign" in target.info:
        names = [name for name in names if not LENSES[name].reads_log]
        if not names or checkpoint != "last":
            raise StatetraceError(
                f"'{target.path}' looks at a checkpoint from elsewhere: it has no training log and "
                "no other checkpoints"
            )
    failures = [
        failure
        for step in _steps(target, checkpoint)
        for failure in _look(target, step, names, settings, device, _length(at_length))
    ]
    if failures:
        raise StatetraceError("; ".join(failures))


def _settings(words: list[str], names: list[str]) -> dict[str, dict[str, str]]:
    from statetrace.config.recipe import known
    from statetrace.lenses.registry import LENSES

    found: dict[str, dict[str, str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        lens, dot, field = name.partition(".")
        if not (equals and dot):
            raise StatetraceError(f"--set '{word}' should read like patching.pairs=50")
        known(lens, LENSES, "lens", f"--set '{word}'")
        if lens not in names:
            raise StatetraceError(f"--set '{word}' has no effect: --only leaves {lens} out")
        found.setdefault(lens, {})[field] = value
    return found


def _length(wanted: str | None) -> int | str | None:
    if wanted is None or wanted == ABLE:
        return wanted
    if not wanted.isdecimal() or int(wanted) < 1:
        raise StatetraceError(f"--at-length '{wanted}' should be a number of actions, or {ABLE}")
    return int(wanted)


def _steps(run: Run, wanted: str) -> list[int | None]:
    if wanted == "last":
        return [None]
    if wanted == "all":
        steps = [step for step, _ in run.checkpoints()]
        if not steps:
            raise StatetraceError(f"'{run.path}' has no checkpoint yet; train it first")
        return list(steps)
    try:
        return [int(word) for word in wanted.split(",")]
    except ValueError:
        raise StatetraceError(
            f"--checkpoint '{wanted}' should be last, all, or steps with commas"
        ) from None


def _look(
    run: Run,
    step: int | None,
    names: list[str],
    settings: dict[str, dict[str, str]],
    device: str,
    length: int | str | None,
) -> list[str]:
    """Run the lenses on one checkpoint, all but those of `WHOLE` at a length if one is asked for; a
    lens that refuses does not keep the others from working. Returns what was refused."""
    import torch

    from statetrace.lenses.loading import from_run
    from statetrace.lenses.registry import LENSES, make_spec
    from statetrace.lenses.result import WHOLE

    specs: dict[str, Any] = {}
    for name in names:
        words = dict(settings.get(name, {}))
        if LENSES[name].reads_log:
            words.setdefault("run", str(run.path))
            if step is not None:
                words.setdefault("until", str(step))
        specs[name] = make_spec(name, words)
    subject = from_run(run, step, device, note)
    if subject.threads is not None:
        torch.set_num_threads(subject.threads)
    folder = run.path / "lenses" / ("" if step is None else f"step-{step}")
    if length is None:
        return _show(subject, names, specs, folder)
    own = subject.task.length
    if isinstance(length, int) and length > own:
        raise StatetraceError(f"--at-length {length}: it was trained on {own} actions at most")
    failures = _show(subject, [name for name in names if name in WHOLE], specs, folder)
    try:
        task = _shortened(subject, length)
    except StatetraceError as error:  # other checkpoints may be able
        return [*failures, str(error) if step is None else f"step {step}: {error}"]
    there = folder if task.length == own else folder / f"length-{task.length}"
    others = [name for name in names if name not in WHOLE]
    return failures + _show(dataclasses.replace(subject, task=task), others, specs, there)


def _shortened(subject: LoadedModel, length: int | str) -> WordProblem:
    """The task at a length to look at, or at the longest that the model masters."""
    from statetrace.lenses.generalization import generalization
    from statetrace.mechanisms.mastery import LEARNED, mastered_length

    if isinstance(length, str):
        length = mastered_length(generalization(subject.model, subject.task))
        if length < min(LEARNED, subject.task.length):
            raise StatetraceError(
                f"--at-length {ABLE}: the model gets no more than {length} actions right"
            )
    return subject.task.at_length(length)


def _show(subject: LoadedModel, names: list[str], specs: dict[str, Any], folder: Path) -> list[str]:
    """Run the lenses, write what they saw to a folder and print it; what was refused."""
    from statetrace.lenses.registry import LENSES
    from statetrace.report.headlines import headline

    if not names:
        return []
    failures, done = [], []
    with bars() as progress:
        for name in names:
            bar = progress.add_task(name, total=1.0)

            def watch(share: float, bar: TaskID = bar) -> None:
                progress.update(bar, completed=share)

            try:
                result = LENSES[name].look(subject.model, subject.task, specs[name], watch)
            except StatetraceError as error:
                failures.append(f"{name}: {error}")
                continue
            dataclasses.replace(result, subject=subject.about()).save(folder)
            progress.update(bar, completed=1.0)
            progress.stop_task(bar)
            done.append(result)
            for sentence in result.notes:
                out.print(f"{name}: {sentence}", markup=False)
    table = Table(show_header=False, box=None, padding=(0, 1, 1, 0))
    for result in done:
        if sentence := headline(result):
            table.add_row(Text(result.lens, style="bold"), Text(sentence))
    out.print(table)
    note(f"tables: {folder}")
    return failures
