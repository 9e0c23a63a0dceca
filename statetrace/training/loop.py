"""A run from its first step to its last: resumable bit for bit, on one process or several.

Stages hand on their last checkpoint, read from disk: whether a process went through the boundary or
was started behind it, it has the same weights at the same addresses and no other memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.groups import Group, group, store_group, stored_group
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.training import checkpoint, setup
from statetrace.training.callback import Callback, Quiet
from statetrace.training.parallel import join
from statetrace.training.run_log import RunLog
from statetrace.training.setup import TrainingPlan
from statetrace.training.trainer import Evaluation, Trainer


@dataclass(frozen=True)
class Outcome:
    """How a run ended: at which step (of which stage, where there are several), and whether that
    was its last."""

    step: int
    finished: bool
    checkpoint: Path
    stage: str | None = None


@dataclass(frozen=True)
class Position:
    """Where a run stands: `step` steps of `stage` are done; `folder` has the weights, None where
    there are none yet."""

    stage: Stage
    step: int
    folder: Path | None


def train(
    recipe: Recipe,
    run: Run,
    listener: Callback,
    resume: bool = False,
    states: Group | None = None,
) -> Outcome:
    """Train as the recipe says, into a run folder.

    A folder that already holds a run is only touched with `resume`, which continues it from its
    newest undamaged checkpoint, and is harmless on a new or a finished run. Started by torchrun,
    every process calls this; the leading one writes and speaks. `states` is the group where the
    recipe only has its name.
    """
    began = time.perf_counter()
    with join(recipe.training.device) as world:
        states = states or _group(recipe, run)
        plan = setup.make_plan(recipe, world, states)  # refuses nonsense before anything is written
        if not world.leads:
            return _train(plan, run, Quiet(), began)
        run.check_new()
        if run.exists():
            _check_resumable(recipe, run, resume)
        elif any(home(run, stage).checkpoints() for stage in recipe.stages):
            raise StatetraceError(
                f"'{run.path}' holds checkpoints but no run.json that says what they are; "
                "choose another --out"
            )
        with run.lock():
            store_group(run.path, states)
            return _train(plan, run, listener, began)


def _group(recipe: Recipe, run: Run) -> Group:
    """What the recipe names; where that is gone, what the run was begun with."""
    try:
        return group(recipe.task.group, recipe.task.notation)
    except StatetraceError:
        if not run.exists():
            raise
        return stored_group(run.path, recipe.task.group, recipe.task.notation)


def _check_resumable(recipe: Recipe, run: Run, resume: bool) -> None:
    if not resume:
        raise StatetraceError(
            f"'{run.path}' already holds a run; --resume continues it, "
            "another --out starts a new one"
        )
    changed = recipe.differences(Recipe.of(run.recipe))
    if changed:
        raise StatetraceError(
            f"'{run.path}' was begun with other settings: asked for {'; '.join(changed)}; "
            "resume without these, or start a new run"
        )


def home(run: Run, stage: Stage) -> Run:
    """The folder a stage's checkpoints go to: the last stage's are the run's own."""
    return run if stage.last else run.stage(stage.name)


def find(plan: TrainingPlan, run: Run, listener: Callback) -> Position:
    """Where to go on: behind the newest undamaged checkpoint of the latest stage that has one."""
    stages = plan.recipe.stages
    for stage in reversed(stages):
        found = checkpoint.newest(home(run, stage), listener.told)
        if found is None:
            continue
        step, folder = found
        if not stage.last and _complete(stage, step, folder):
            return Position(stages[stage.number + 1], 0, folder)
        return Position(stage, step, folder)
    return Position(stages[0], 0, None)


def _complete(stage: Stage, step: int, folder: Path) -> bool:
    return step >= stage.training.steps or checkpoint.ended(folder) is not None


def _train(plan: TrainingPlan, run: Run, listener: Callback, began: float) -> Outcome:
    at = find(plan, run, listener)
    if at.folder and at.step and _complete(at.stage, at.step, at.folder):
        why = checkpoint.ended(at.folder) or f"all {at.stage.training.steps:,} steps are done"
        listener.told(f"'{run.path}' is finished: {why}")
        return Outcome(at.step, True, at.folder, at.stage.label)
    book = RunLog(plan, run, listener, began)
    try:
        outcome = _stages(plan, run, book, listener, at)
    except BaseException as error:
        book.close(f"{type(error).__name__}: {error}"[:500])
        raise
    book.close("finished" if outcome.finished else "stopped")
    return outcome


def _stages(
    plan: TrainingPlan, run: Run, book: RunLog, listener: Callback, at: Position
) -> Outcome:
    while True:
        trainer = take_up(plan, run, at)
        if at.stage.label is not None:
            listener.entered(at.stage)
        book.enter(trainer, at.step)
        outcome, stop = _steps(trainer, book, listener, at.step)
        if at.stage.last or not outcome.finished:
            return outcome
        if stop:
            return replace(outcome, finished=False)
        del trainer  # the next stage's model and optimizer need its memory
        at = Position(plan.recipe.stages[at.stage.number + 1], 0, outcome.checkpoint)


def take_up(plan: TrainingPlan, run: Run, at: Position) -> Trainer:
    """What goes on from there: with a fresh optimizer at the beginning of a stage."""
    plan = plan.at(at.stage)
    if at.folder is None or at.step == 0:
        return Trainer(plan, home(run, at.stage), setup.make_model(plan, at.folder))
    trainer = Trainer(plan, home(run, at.stage), load_checkpoint(at.folder))
    trainer.resume(at.folder)
    return trainer


def _steps(trainer: Trainer, book: RunLog, listener: Callback, start: int) -> tuple[Outcome, bool]:
    """One stage to its end, or to where someone wants to stop (then the second value is True)."""
    stage, run, world = trainer.stage, trainer.run, trainer.plan.world
    steps, stop = stage.training.steps, False
    listener.started(start, steps)
    if start == 0:
        book.evaluation(0, trainer.evaluate(0))
    for index in range(start, steps):
        trainer.step(index)
        done = index + 1
        stop = world.size == 1 and listener.wants_stop()
        log = done % stage.evaluation.log_every == 0 or done == steps
        evaluate = done % stage.evaluation.evaluate_every == 0 or done == steps
        save = done % stage.checkpoint.checkpoint_every == 0 or done == steps or stop
        if log or evaluate or save:
            latest = trainer.read_losses()
            listener.stepped(done, latest)
        if log:
            book.training(done, latest)
        why, ended = None, False
        if evaluate:
            found = trainer.evaluate(done)
            book.evaluation(done, found)
            why = _rule(stage, done, found) if done < steps else None
            ended = world.agreed(why is not None)  # rounding may differ between processes
        if save or ended:
            trainer.save(done, why)
        if ended or (stop and done < steps):
            return Outcome(done, ended, run.checkpoint(done), stage.label), stop
    return Outcome(steps, True, run.checkpoint(steps), stage.label), stop


def _rule(stage: Stage, step: int, found: Evaluation) -> str | None:
    """Why a stage may end before its last step, or None if it may not."""
    wanted, least = stage.training.stop_at, stage.training.stop_loss
    if wanted is not None and found.accuracy >= wanted:
        return f"{found.accuracy:.2%} were right at step {step:,}, and stop_at is {wanted:g}"
    if least is not None and found.loss <= least:
        return f"the loss was {found.loss:.4f} at step {step:,}, and stop_loss is {least:g}"
    return None
