"""`statetrace train`: train a recipe into a run folder."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from statetrace.cli.completion import complete_recipe
from statetrace.cli.console import duration, err, next_steps, note, out, warn, working
from statetrace.cli.help import HelpAll
from statetrace.config.options import path_named, with_settings
from statetrace.config.recipe import Recipe
from statetrace.config.settings import SOLVED
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.runs import Run
from statetrace.training.callback import Callback

if TYPE_CHECKING:
    from statetrace.training.cost import Cost, StageCost

COMMON = (
    *("out", "preset", "resume", "dry_run"),
    *("group", "length", "model", "steps", "seed", "device"),
)
"""Options that --help shows; --help-all shows every one."""


@with_settings
def train(
    *,
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="A recipe: a TOML file or a name, such as paper/s3-gpt2.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run folder to write (default: a new one in runs/).",
            metavar="DIR",
            parser=path_named,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Defaults to use without a RECIPE: laptop (a small model that learns in minutes "
            "on a CPU) or paper. Unless set, it is laptop, or paper with --model or "
            "--pretrained."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the run in --out, if there is one, bit for bit; --steps may be larger.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print the resolved recipe and its estimated cost."),
    ] = False,
    help_all: HelpAll = False,
    given: dict[str, Any],
) -> None:
    """Train a model to predict the state after every action.

    `statetrace train --group S3 --length 12` trains a small model that learns on a laptop. Settings
    come from the RECIPE, if given, else from the preset; options override both. Checkpoints in
    Hugging Face format and accuracy by length (metrics.jsonl) are written to the run folder. A
    recipe may have several stages, such as a topic model before the task; `statetrace recipes`
    lists examples.

    Several processes: torchrun --nproc-per-node 2 -m statetrace train ...
    """
    from statetrace import api

    if out is None and (resume or int(os.environ.get("WORLD_SIZE", 1)) > 1):
        raise StatetraceError("--out is missing; name the run folder")
    if out is None or dry_run:
        resolved = api.resolve_recipe(recipe, out, resume, given, preset)
        if dry_run:
            _show_cost(resolved)
            return
        out = _new_folder(recipe, resolved)
        note(f"run folder: {out}")
    options = {"out": out, "resume": resume, "preset": preset, **given}
    if int(os.environ.get("RANK", 0)):
        api.train(recipe, **options)  # only the leading process reports
        return
    with TrainingProgress() as progress:
        outcome = api.train(recipe, callback=progress, **options).outcome
    assert outcome is not None
    if not outcome.finished:
        stage = "" if outcome.stage is None else f" of stage {outcome.stage}"
        note(f"stopped at step {outcome.step:,}{stage}; {outcome.checkpoint} is kept")
        next_steps(["train", "--out", out, "--resume"])
        raise typer.Exit(130)
    note(f"trained model: {outcome.checkpoint}")
    _show_result(Run(out))


def _new_folder(file: Path | None, recipe: Recipe) -> Path:
    """Such as runs/s3-12, or runs/s3-12-2 where that exists."""
    task = recipe.task
    name = f"{Path(task.group).stem}-{task.length}" if file is None else file.stem
    name = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.") or "run"
    folders = (Path("runs") / (name if n == 1 else f"{name}-{n}") for n in count(1))
    existing = list(takewhile(Path.exists, folders))
    for folder in existing:
        if _unfinished(Run(folder), recipe):
            note(f"'{folder}' holds this run unfinished; --out {folder} --resume continues it")
    return Path("runs") / (f"{name}-{len(existing) + 1}" if existing else name)


def _unfinished(run: Run, recipe: Recipe) -> bool:
    """Whether the folder holds a run of the recipe that was stopped."""
    try:
        same = Recipe.of(run.recipe) == recipe
    except StatetraceError:  # results of another checkpoint, or no run at all
        return False
    sessions = run.info.get("sessions") or [{}]
    return same and sessions[-1].get("ended") != "finished"


def _show_result(run: Run) -> None:
    """Whether the model has learned the task, and what to do next."""
    from statetrace.lenses.parts.cutoffs import THRESHOLD

    evaluations = run.evaluations()
    accuracy = evaluations[-1]["accuracy_by_length"]["state"] if evaluations else []
    if accuracy:
        length, last = len(accuracy), accuracy[-1]
        result = f"{last:.1%} of the states are correct at length {length}"
        cutoff = next((n for n, share in enumerate(accuracy, 1) if share < THRESHOLD), None)
        ends = "" if cutoff is None else f"; {THRESHOLD:.0%} cutoff: {cutoff}"
        if last < SOLVED:
            warn(f"not learned: {result}{ends}")
            next_steps(
                *_prolonged(run, evaluations[-1]["step"]),
                "start again with another --seed or a shorter --length",
            )
            return
        note(f"learned: {result}, after {evaluations[-1]['step']:,} steps{ends}")
    next_steps(["verdict", run.path], ["report", run.path], ["explore", run.path])


def _prolonged(run: Run, steps: int) -> list[list[object]]:
    """The command that trains a run of one stage for as many steps again."""
    command = ["train", "--out", run.path, "--resume", "--steps", 2 * steps]
    return [] if run.recipe.get("stage") else [command]


def _show_cost(recipe: Recipe) -> None:
    out.print(recipe.to_toml(), markup=False, soft_wrap=True)
    with working("measuring"):
        from statetrace.config.memory import BYTES_PER_PARAMETER
        from statetrace.training.cost import BYTES_SAVED, estimate

        cost = estimate(recipe)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("parameters", f"{cost.parameters:,} ({cost.block_parameters:,} in the blocks)")
    table.add_row("steps", f"{cost.steps:,}")
    if len(cost.stages) > 1:
        for each in cost.stages:
            table.add_row(f"  {each.stage.name}", _stage(each))
    table.add_row("tokens", f"{cost.tokens:,}")
    table.add_row("compute", f"{cost.flops:.2e} floating-point operations")
    memory, saved = (_bytes(cost.parameters * each) for each in (BYTES_PER_PARAMETER, BYTES_SAVED))
    table.add_row("memory", f"{memory} for weights and optimizer, plus activations")
    checkpoints = sum(each.checkpoints for each in cost.stages)
    table.add_row("disk", f"{checkpoints:,} checkpoints of {saved}")
    if cost.seconds is None:
        table.add_row("time", "not measured: the model is too large for this machine's memory")
    else:
        time = f"{duration(cost.seconds)} on this machine, {_pace(cost)}"
        table.add_row("time", time + _early_or_late(cost, cost.seconds))
    out.print(table)
    next_steps("the same command without --dry-run trains it")


def _pace(cost: Cost) -> str:
    times = [(each.step_seconds or 0.0) * each.stage.training.steps for each in cost.stages]
    step = sum(times) / cost.steps
    each = f"{1000 * step:.3g} ms" if step < 1 else f"{step:.3g} s"
    threads = "1 CPU thread" if cost.threads == 1 else f"{cost.threads} CPU threads"
    return f"at {each} a step with {threads}"


def _early_or_late(cost: Cost, seconds: float) -> str:
    """Whether a run may take less or more time than the estimated `seconds`."""
    early = any(each.stage.training.may_end_early for each in cost.stages)
    last = cost.stages[-1]
    steps, most = last.stage.training.steps, last.stage.training.most_steps or 0
    more = last.prolonged(most).seconds(steps) if most > steps else 0.0
    late = f", up to {duration(seconds + more)} if it learns late"
    return (", less if it learns earlier" if early else "") + (late if more else "")


def _stage(cost: StageCost) -> str:
    """The cost of a stage in one line."""
    settings = cost.stage.training
    parts = [f"{settings.steps:,} of {settings.batch:,} x {cost.tokens_each} tokens"]
    if cost.step_seconds is not None:
        parts.append(duration(cost.seconds()))
    if settings.may_end_early:
        parts.append("less if it ends early")
    return ", ".join(parts)


def _bytes(n: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


class _Narrower(Progress):
    """Leaves room for the ^C that a terminal prints, which would else begin a second line."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield Constrain(self.make_tasks_table(self.tasks), err.width - 3)


class TrainingProgress(Callback):
    """A progress bar on a terminal; a line per evaluation elsewhere."""

    def __init__(self) -> None:
        self._progress = _Narrower(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=err,
            disable=not err.is_terminal,
            transient=True,
        )
        self._bar = self._progress.add_task("preparing", total=None, numbers="")
        self._label, self._stage = "training", 0
        self._cost: Cost | None = None
        self._estimated = False
        self._loss: float | None = None
        self._accuracy: dict[str, float] = {}
        self._stop = False

    def __enter__(self) -> TrainingProgress:
        self._previous = {s: signal.signal(s, self._interrupt) for s in _STOPPING}
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: object) -> None:
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True

    def should_stop(self) -> bool:
        return self._stop

    def on_estimate(self, cost: Cost) -> None:
        self._cost = cost

    def on_stage_start(self, stage: Stage) -> None:
        self._stage = stage.number
        self._label = f"stage {stage.name} of {stage.total}"
        self._accuracy = {}
        if not err.is_terminal:
            note(f"stage {stage.name} of {stage.total}: up to {stage.training.steps:,} steps")

    def on_start(self, step: int, steps: int) -> None:
        if self._cost is not None:
            cost = self._cost.stages[self._stage]
            if steps > cost.stage.training.steps:  # prolonged
                self._cost, self._estimated = self._cost.prolonged(steps), False
            if not self._estimated:
                self._show_estimate(self._cost, step)
            self._show_growth(self._cost.stages[self._stage].stage, step)
        self._progress.update(self._bar, total=steps, completed=step, description=self._label)

    def _show_estimate(self, cost: Cost, step: int) -> None:
        """How long the run takes from this step of this stage."""
        self._estimated = True
        if cost.seconds is not None:
            first, *later = cost.stages[self._stage :]
            seconds = first.seconds(step) + sum(each.seconds() for each in later)
            note(f"about {duration(seconds)} {_pace(cost)}{_early_or_late(cost, seconds)}")

    def _show_growth(self, stage: Stage, step: int) -> None:
        """Else a held-out loss that rises while sequences are short looks like divergence."""
        from statetrace.training.optimizer import current_length

        shortest = current_length(stage.training, step, stage.length)
        if shortest < stage.length:
            note(
                f"training sequences grow from length {shortest} to {stage.length} over the "
                f"first {stage.training.grow:.0%} of the steps; until then the held-out loss, "
                "which covers all lengths, may rise"
            )

    def on_step(self, step: int, train_loss: float) -> None:
        self._loss = train_loss
        self._progress.update(self._bar, completed=step, numbers=self._numbers())

    def on_evaluation(self, record: dict[str, Any]) -> None:
        accuracy = record["accuracy"]
        self._accuracy |= accuracy
        self._progress.update(self._bar, numbers=self._numbers())
        if not err.is_terminal:
            shares = ", ".join(f"{what} {share:.1%}" for what, share in accuracy.items())
            loss = f"held-out loss {record['loss']:.4f}" if "loss" in record else " " * 20
            note(f"step {record['step']:>7,}  {loss}  accuracy: {shares}")

    def on_message(self, message: str) -> None:
        note(message)

    def _numbers(self) -> str:
        shares = [f"{what} {share:.0%}" for what, share in self._accuracy.items()]
        loss = "-" if self._loss is None else f"{self._loss:.3f}"
        return " ".join([f"training loss {loss}", *shares])


_STOPPING = (signal.SIGINT, signal.SIGTERM)
