"""A run from its first step to its last: resumable bit for bit, on one process or several.

A stage starts from the last checkpoint of the one before it, read from disk. A process that passes
the boundary and one that is started after it therefore have the same weights at the same addresses
and no other state.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from statetrace.config.checks import need
from statetrace.config.recipe import Recipe
from statetrace.config.settings import SOLVED
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.groups import Group, check_stored, group, stored_group
from statetrace.models import load_checkpoint
from statetrace.models.threads import using_threads
from statetrace.runs import Run, checkpoint_damage
from statetrace.training import checkpoint, setup
from statetrace.training.callback import Callback
from statetrace.training.parallel import join
from statetrace.training.run_log import RunLog, restore
from statetrace.training.setup import TrainingPlan
from statetrace.training.trainer import Trainer, evaluate, save, stepper


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
            return train_runs([plan], [run], Callback(), began)
        check_folder(recipe, run, resume)
        with run.lock():
            return train_runs([plan], [run], callback, began)


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
                "choose another folder"
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
    """Where to continue: after the newest undamaged checkpoint of the latest stage that has one; a
    new branch, after that of the run it branches from."""
    stages = plan.recipe.stages
    for stage in reversed(stages):
        newest = stage_run(run, stage).newest_checkpoint(callback.on_message)
        if newest is None:
            continue
        step, folder = newest
        steps = checkpoint.notes(folder).get("schedule", {}).get("steps", 0)
        if steps > stage.training.steps:
            stage = stage.prolonged(steps)
        if not stage.last and _complete(stage, step, folder):
            return Position(stages[stage.number + 1], 0, folder)
        return Position(stage, step, folder)
    if plan.recipe.training.branch_from is not None:
        return _branch_point(plan.recipe, Run.existing(Path(plan.recipe.training.branch_from)))
    return Position(stages[0], 0, None)


def _branch_point(recipe: Recipe, parent: Run) -> Position:
    """The checkpoint of another run at which this one begins."""
    stage, step = recipe.stages[-1], recipe.training.branch_step or 0
    steps = [saved for saved, _ in parent.checkpoints() if saved < stage.training.steps]
    need(
        step in steps,
        f"'{parent.path}' has no checkpoint at branch_step {step} from which this run could "
        f"continue; possible steps: {', '.join(map(str, steps)) or 'none'}",
    )
    folder, before = parent.checkpoint(step), Recipe.of(parent.recipe)
    damage = checkpoint_damage(folder)
    need(damage is None, f"checkpoint {folder} is damaged ({damage}); branch from another one")
    model = dataclasses.replace(before.model, init_seed=recipe.model.init_seed)
    need(
        (before.task, model) == (recipe.task, recipe.model),
        f"'{parent.path}' has another task or model than this run; a branch must have the same",
    )
    return Position(stage, step, folder)


def _complete(stage: Stage, step: int, folder: Path) -> bool:
    return step >= stage.training.steps or "ended" in checkpoint.notes(folder)


def train_runs(
    plans: Sequence[TrainingPlan], runs: Sequence[Run], callback: Callback, began: float
) -> Outcome:
    """Train one run, or several whose plans differ in the seed alone and that are at the same
    step; the folders are locked already."""
    positions = [find_position(plan, run, callback) for plan, run in zip(plans, runs, strict=True)]
    _check_abreast(positions)
    stage, step, folder = positions[0].stage, positions[0].step, positions[0].folder
    if folder and step and _complete(stage, step, folder):
        why = checkpoint.notes(folder).get("ended", f"all {stage.training.steps:,} steps are done")
        if plans[0].world.leads:
            for run, position in zip(runs, positions, strict=True):
                restore(run, position.folder or folder, callback)
        callback.on_message(f"'{runs[0].path}' is finished: {why}")
        return Outcome(step, True, folder, stage.label)
    logs = [RunLog(plan, run, callback, began) for plan, run in zip(plans, runs, strict=True)]
    ended = "stopped"
    try:
        with using_threads(_threads(plans[0], runs[0], callback)):
            outcome = _train_stages(plans, runs, logs, callback, positions)
        if outcome.finished:
            ended = "finished"
        return outcome
    except BaseException as error:
        ended = f"{type(error).__name__}: {error}"[:500]
        raise
    finally:
        for log in logs:
            log.close(ended)


def _threads(plan: TrainingPlan, run: Run, callback: Callback) -> int | None:
    """The number of CPU threads that a resumed run was started with, because the order of sums
    depends on it; with a message where that is not possible."""
    recorded = run.info.get("hardware", {}).get("threads") if run.exists() else None
    if plan.world.device.type != "cpu" or not isinstance(recorded, int):
        return None
    threads = plan.recipe.training.threads or min(recorded, os.cpu_count() or 1)
    if threads != recorded:
        callback.on_message(
            f"'{run.path}' was trained with {recorded} CPU threads and continues with {threads}: "
            "its numbers may differ in the last digits from those of an uninterrupted run"
        )
    return threads


def _check_abreast(positions: Sequence[Position]) -> None:
    """Refuse runs at different steps."""
    steps = sorted({(at.stage.number, at.step, at.stage.label) for at in positions})
    if len(steps) > 1:
        names = [str(step) if stage is None else f"{step} of {stage}" for _, step, stage in steps]
        raise StatetraceError(
            f"runs at steps {', '.join(names)} cannot be trained together; "
            "train them alone until they are at the same step"
        )


def _train_stages(
    plans: Sequence[TrainingPlan],
    runs: Sequence[Run],
    logs: Sequence[RunLog],
    callback: Callback,
    positions: Sequence[Position],
) -> Outcome:
    """Train stage after stage, each from the last checkpoints of the previous one."""
    while True:
        stage, start = positions[0].stage, positions[0].step
        trainers = [make_trainer(*each) for each in zip(plans, runs, positions, strict=True)]
        if stage.label is not None:
            callback.on_stage_start(stage)
        for trainer, log, position in zip(trainers, logs, positions, strict=True):
            log.start_stage(trainer, start, position.folder)
        callback.on_start(start, stage.training.steps)
        step, ended, stopped = _train_stage(trainers, logs, start, callback)
        folders = [trainer.run.checkpoint(step) for trainer in trainers]
        finished = ended or step == trainers[0].stage.training.steps
        if stage.last or not finished or stopped:
            return Outcome(step, finished and (stage.last or not stopped), folders[0], stage.label)
        del trainers  # the next stage's models and optimizers need their memory
        positions = [
            Position(plan.recipe.stages[stage.number + 1], 0, folder)
            for plan, folder in zip(plans, folders, strict=True)
        ]


def make_trainer(plan: TrainingPlan, run: Run, position: Position) -> Trainer:
    """The trainer that continues from a position, with a new optimizer at the start of a stage."""
    plan, folder = plan.at(position.stage), position.folder
    checkpoints = stage_run(run, position.stage)
    if folder is None or position.step == 0:
        return Trainer(plan, checkpoints, setup.make_model(plan, folder))
    trainer = Trainer(plan, checkpoints, load_checkpoint(folder))
    trainer.resume(folder)
    return trainer


def _train_stage(
    trainers: Sequence[Trainer], logs: Sequence[RunLog], start: int, callback: Callback
) -> tuple[int, bool, bool]:
    """Train one stage from step `start`, for one trainer or for several in parallel.

    Returns the last step, whether a stopping rule ended the stage there, and whether the callback
    asked to stop; the last step always has a checkpoint.
    """
    stage, world = trainers[0].stage, trainers[0].plan.world
    steps, step, ended, stopped = stage.training.steps, start, False, False
    if start == 0:
        for first, log in zip(evaluate(trainers, 0), logs, strict=True):
            log.evaluation(first)
    training = stepper(trainers)
    while step < steps and not ended and not stopped:
        training.step(step)
        step += 1
        stopped = world.size == 1 and callback.should_stop()
        writes = step % stage.evaluation.log_every == 0 or step == steps
        evaluates = step % stage.evaluation.evaluate_every == 0 or step == steps
        saves = step % stage.checkpoint.checkpoint_every == 0 or step == steps or stopped
        if not (writes or evaluates or saves):
            continue
        losses = training.read_losses()
        evaluations = evaluate(trainers, step) if evaluates else [None] * len(trainers)
        reasons: list[str | None] = []
        for trainer, log, loss, evaluation in zip(trainers, logs, losses, evaluations, strict=True):
            callback.on_step(step, loss)
            if writes:
                log.training(step, loss)
            reasons.append(None)
            if evaluation is not None:
                log.evaluation(evaluation)
                if step < steps:
                    reasons[-1] = trainer.stopping_reason(step, evaluation)
        if evaluates:
            ended = world.agreed(reasons[0] is not None)  # rounding may differ between processes
        last = evaluations[0] if step == steps else None
        if last is not None and world.agreed(last.lowest < SOLVED):
            steps = _prolong(trainers, logs, last.lowest, callback)
        if saves or ended:
            save(trainers, step, reasons, [log.text() for log in logs])
    return step, ended, stopped


def _prolong(
    trainers: Sequence[Trainer], logs: Sequence[RunLog], accuracy: float, callback: Callback
) -> int:
    """Prolong a stage that has not learned its task by a third of its steps, up to `most_steps`.

    Returns the new last step, which checkpoints record."""
    stage = trainers[0].stage
    steps, most = stage.training.steps, stage.training.most_steps or 0
    if steps >= most:
        return steps
    stage = stage.prolonged(min(most, steps + math.ceil(steps / 3)))
    for trainer, log in zip(trainers, logs, strict=True):
        trainer.stage = log.stage = stage
    more = stage.training.steps - steps
    callback.on_message(
        f"not learned after {steps:,} steps: accuracy is {accuracy:.1%} at the hardest "
        f"length; training continues for {more:,} more"
    )
    callback.on_start(steps, stage.training.steps)
    return stage.training.steps
