"""`statetrace train`: train a recipe into a run folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from statetrace.cli.console import err, note, out
from statetrace.config.options import path_named, with_settings
from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.training.callback import Callback

if TYPE_CHECKING:
    from statetrace.training.cost import StageCost


@with_settings
def train(
    *,
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe: a TOML file or a name, such as paper/s3-gpt2.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to write.", metavar="DIR", parser=path_named)
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the run in --out, if there is one, bit for bit."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print the resolved recipe and its estimated cost."),
    ] = False,
    given: dict[str, Any],
) -> None:
    """Train a model to predict the state after every action.

    Settings come from the RECIPE, if given, and from the options below, which override it. The
    defaults are the paper's. Checkpoints in Hugging Face format and accuracy by length
    (metrics.jsonl) are written to the run folder. A recipe may have several stages, such as a topic
    model before the task; `statetrace recipes` lists examples.

    Several processes: torchrun --nproc-per-node 2 -m statetrace train ...
    """
    from statetrace import api

    if dry_run:
        _show_cost(api.resolve_recipe(recipe, out, resume, given))
        return
    if out is None:
        raise StatetraceError("--out is missing; give the run folder to write")
    if int(os.environ.get("RANK", 0)):
        api.train(recipe, out=out, resume=resume, **given)  # only the leading process reports
        return
    with TrainingProgress() as progress:
        outcome = api.train(recipe, out=out, resume=resume, callback=progress, **given).outcome
    assert outcome is not None
    if not outcome.finished:
        stage = "" if outcome.stage is None else f" of stage {outcome.stage}"
        where = f"step {outcome.step:,}{stage}"
        note(f"stopped at {where}; --resume continues from {outcome.checkpoint}")
        raise typer.Exit(130)
    note(f"trained model: {outcome.checkpoint}")


def _show_cost(recipe: Recipe) -> None:
    from statetrace.training.cost import estimate

    out.print(recipe.to_toml(), markup=False, soft_wrap=True)
    cost = estimate(recipe)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("parameters", f"{cost.parameters:,} ({cost.block_parameters:,} in the blocks)")
    table.add_row("steps", f"{cost.steps:,}")
    if len(cost.stages) > 1:
        for stage in cost.stages:
            table.add_row(f"  {stage.name}", _stage(stage))
    table.add_row("tokens", f"{cost.tokens:,}")
    table.add_row("compute", f"{cost.flops:.2e} floating-point operations")
    table.add_row("memory", f"{_bytes(cost.memory)} for weights and optimizer, plus activations")
    table.add_row("disk", f"{cost.checkpoints:,} checkpoints of {_bytes(cost.checkpoint)}")
    if cost.step_seconds is None:
        table.add_row("time", "not measured: the model is too large for this machine's memory")
    else:
        total, step = cost.step_seconds * cost.steps, cost.step_seconds
        each = f"{1000 * step:.3g} ms" if step < 1 else f"{step:.3g} s"
        table.add_row("time", f"{_duration(total)} on this machine, at {each} a step")
    out.print(table)


def _stage(stage: StageCost) -> str:
    """The cost of a stage in one line."""
    parts = [f"{stage.steps:,} of {stage.batch:,} x {stage.tokens_each} tokens"]
    if stage.step_seconds is not None:
        parts.append(_duration(stage.step_seconds * stage.steps))
    if stage.may_end_early:
        parts.append("less if it ends early")
    return ", ".join(parts)


def _bytes(n: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"


class TrainingProgress(Callback):
    """A progress bar on a terminal; a line per evaluation elsewhere."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=err,
            disable=not err.is_terminal,
        )
        self._bar = self._progress.add_task("training", total=None, numbers="")
        self._loss = float("nan")
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

    def on_stage_start(self, stage: Stage) -> None:
        self._progress.update(self._bar, description=f"stage {stage.name} of {stage.total}")
        self._accuracy = {}
        if not err.is_terminal:
            note(f"stage {stage.name} of {stage.total}: up to {stage.training.steps:,} steps")

    def on_start(self, step: int, steps: int) -> None:
        self._progress.update(self._bar, total=steps, completed=step)

    def on_step(self, step: int, train_loss: float) -> None:
        self._loss = train_loss
        self._progress.update(self._bar, completed=step, numbers=self._numbers())

    def on_evaluation(self, record: dict[str, Any]) -> None:
        accuracy = record["accuracy"]
        self._accuracy |= accuracy
        self._progress.update(self._bar, numbers=self._numbers())
        if not err.is_terminal:
            shares = ", ".join(f"{what} {share:.1%}" for what, share in accuracy.items())
            loss = f"loss {record['loss']:.4f}" if "loss" in record else " " * 11
            note(f"step {record['step']:>7,}  {loss}  accuracy: {shares}")

    def on_message(self, message: str) -> None:
        note(message)

    def _numbers(self) -> str:
        shares = [f"{what} {share:.0%}" for what, share in self._accuracy.items()]
        return " ".join([f"loss {self._loss:.3f}", *shares])


_STOPPING = (signal.SIGINT, signal.SIGTERM)
