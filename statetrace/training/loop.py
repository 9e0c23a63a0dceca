"""A run from its first step to its last: resumable bit for bit, on one process or several.

A stage starts from the last checkpoint of the one before it, read from disk. A process that passes
the boundary and one that is started after it therefore have the same weights at the same addresses
and no other state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.groups import Group, check_stored, group, stored_group
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.training import checkpoint, setup
from statetrace.training.callback import Callback
from statetrace.training.parallel import join
from statetrace.training.run_log import RunLog
from statetrace.training.setup import TrainingPlan
from statetrace.training.trainer import Trainer


@dataclass(frozen=True)
class Outcome:
    """How a run ended: at which step (of which stage, if there are several), and whether that was
    its last."""

    step: int
    finished: bool
    checkpoint: Path
    stage: str | None = None


@dataclass(frozen=True)
class Position:
    """Where a run stands: `step` steps of `stage` are done; `folder` has the weights, None if there
    are none yet."""

    stage: Stage
    step: int
    folder: Path | None


def train(
    recipe: Recipe,
    run: Run,
    callback: Callback | None = None,
    resume: bool = False,
    states: Group | None = None,
) -> Outcome:
    """Train a recipe into a run folder.

    A folder that already holds a run is only touched with `resume`, which continues it from its
    newest undamaged checkpoint and is harmless on a new or a finished run. Under torchrun every
    process calls this; only the leading one writes and reports. `states` is the group if the recipe
    has only its name.
    """
    began, callback = time.perf_counter(), callback or Callback()
    with join(recipe.training.device) as world:
        states = states or _group(recipe, run)
        plan = setup.make_plan(recipe, world, states)  # before anything is written
        if not world.leads:
            return _train(plan, run, Callback(), began)
        check_folder(recipe, run, resume)
        with run.lock():
            return _train(plan, run, callback, began)


def _group(recipe: Recipe, run: Run) -> Group:
    """The group that the recipe names; if that is gone, the one stored in the run folder."""
    try:
        states = group(recipe.task.group, recipe.task.notation)
    except StatetraceError:
        if not run.exists():
            raise
        return stored_group(run.path, recipe.task.group, recipe.task.notation)
    check_stored(run.path, states)
    return states


def check_folder(recipe: Recipe, run: Run, resume: bool) -> None:
    """Refuse a folder that holds something else, or another run than the recipe's."""
    run.check_new()
    if not run.exists():
        folders = (stage_run(run, stage) for stage in recipe.stages)
        if (run.path / "config.json").is_file() or any(each.checkpoints() for each in folders):
            raise StatetraceError(
                f"'{run.path}' holds checkpoints but no run.json that describes them; "
                "choose another --out"
            )
        return
    if not resume:
        raise StatetraceError(
            f"'{run.path}' already holds a run; continue it with --resume, "
            "or start a new one with another --out"
        )
    before = Recipe.of(run.recipe)
    if len(recipe.stages) == 1 and recipe.training.steps > before.training.steps:
        before = before.override({"steps": recipe.training.steps})  # a run may be prolonged
    changed = recipe.differences(before)
    if changed:
        raise StatetraceError(
            f"'{run.path}' was started with other settings (now {'; '.join(changed)}); "
            "resume without these, or start a new run"
        )


def stage_run(run: Run, stage: Stage) -> Run:
    """The folder for a stage's checkpoints; the last stage's are the run's own."""
    return run if stage.last else run.stage(stage.name)


def find_position(plan: TrainingPlan, run: Run, callback: Callback) -> Position:
    """Where to continue: after the newest undamaged checkpoint of the latest stage that has one."""
    stages = plan.recipe.stages
    for stage in reversed(stages):
        newest = stage_run(run, stage).newest_checkpoint(callback.on_message)
        if newest is None:
            continue
        step, folder = newest
        if not stage.last and _complete(stage, step, folder):
            return Position(stages[stage.number + 1], 0, folder)
        return Position(stage, step, folder)
    return Position(stages[0], 0, None)


def _complete(stage: Stage, step: int, folder: Path) -> bool:
    return step >= stage.training.steps or checkpoint.ended(folder) is not None


def _train(plan: TrainingPlan, run: Run, callback: Callback, began: float) -> Outcome:
    position = find_position(plan, run, callback)
    stage, step, folder = position.stage, position.step, position.folder
    if folder and step and _complete(stage, step, folder):
        why = checkpoint.ended(folder) or f"all {stage.training.steps:,} steps are done"
        callback.on_message(f"'{run.path}' is finished: {why}")
        return Outcome(step, True, folder, stage.label)
    log = RunLog(plan, run, callback, began)
    try:
        outcome = _train_stages(plan, run, log, callback, position)
    except BaseException as error:
        log.close(f"{type(error).__name__}: {error}"[:500])
        raise
    log.close("finished" if outcome.finished else "stopped")
    return outcome


def _train_stages(
    plan: TrainingPlan, run: Run, log: RunLog, callback: Callback, position: Position
) -> Outcome:
    while True:
        stage, start = position.stage, position.step
        trainer = make_trainer(plan, run, position)
        if stage.label is not None:
            callback.on_stage_start(stage)
        log.start_stage(trainer, start)
        callback.on_start(start, stage.training.steps)
        pairs, end = [(trainer, log)], stage.training.steps
        step, ended, stopped = train_stage(pairs, trainer.step, start, end, callback)
        folder = trainer.run.checkpoint(step)
        finished = ended or step == end
        if stage.last or not finished or stopped:
            return Outcome(step, finished and (stage.last or not stopped), folder, stage.label)
        del trainer, pairs  # the next stage's model and optimizer need its memory
        position = Position(plan.recipe.stages[stage.number + 1], 0, folder)


def make_trainer(plan: TrainingPlan, run: Run, position: Position) -> Trainer:
    """The trainer that continues from a position, with a new optimizer at the start of a stage."""
    plan, folder = plan.at(position.stage), position.folder
    checkpoints = stage_run(run, position.stage)
    if folder is None or position.step == 0:
        return Trainer(plan, checkpoints, setup.make_model(plan, folder))
    trainer = Trainer(plan, checkpoints, load_checkpoint(folder))
    trainer.resume(folder)
    return trainer


def train_stage(
    trainers: Sequence[tuple[Trainer, RunLog]],
    train_step: Callable[[int], None],
    start: int,
    end: int,
    callback: Callback,
) -> tuple[int, bool, bool]:
    """Train one stage from step `start` to step `end`, for one trainer or for several in parallel.

    Returns the last step, whether a stopping rule ended the stage there, and whether the callback
    asked to stop; the last step always has a checkpoint.
    """
    stage, world = trainers[0][0].stage, trainers[0][0].plan.world
    steps, step, ended, stopped = stage.training.steps, start, False, False
    if start == 0:
        for trainer, log in trainers:
            log.evaluation(trainer.evaluate(0))
    while step < end and not ended and not stopped:
        train_step(step)
        step += 1
        stopped = world.size == 1 and callback.should_stop()
        logs = step % stage.evaluation.log_every == 0 or step == steps
        evaluates = step % stage.evaluation.evaluate_every == 0 or step == steps
        saves = step % stage.checkpoint.checkpoint_every == 0 or step == end or stopped
        if not (logs or evaluates or saves):
            continue
        for trainer, log in trainers:
            loss, why = trainer.read_losses(), None
            callback.on_step(step, loss)
            if logs:
                log.training(step, loss)
            if evaluates:
                evaluation = trainer.evaluate(step)
                log.evaluation(evaluation)
                why = trainer.stopping_reason(step, evaluation) if step < steps else None
                ended = world.agreed(why is not None)  # rounding may differ between processes
            if saves or ended:
                trainer.save(step, why)
    return step, ended, stopped
