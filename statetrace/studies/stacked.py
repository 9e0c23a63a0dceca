"""Train several seeds of a small model at once: stacked parameters, one fused step for all.

A model of width 64 is limited by the launch of small operations; sixteen of them in one call cost
little more than one. Every seed has its own trainer, whose parameters and moments are views of the
stacked ones, so logs, evaluations and checkpoints are those of a single run, and each run can be
resumed alone.

Cost: memory for all seeds at once; evaluations run one seed after the other.
Caveat: sums are taken in another order, so numbers equal those of a single run up to rounding, not
bit for bit; over many steps such differences grow, as between two kinds of processor. Stages that
may end early cannot be stacked, because seeds would end at different steps, nor can models with
dropout on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.models.device import pick_device
from statetrace.models.from_recipe import make_task, model_spec
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.callback import Callback
from statetrace.training.fused import unsupported_size
from statetrace.training.loop import Position, find_position, make_trainer, stage_run, train_stage
from statetrace.training.optimizer import current_length, learning_rate
from statetrace.training.parallel import join
from statetrace.training.run_log import RunLog
from statetrace.training.setup import TrainingPlan
from statetrace.training.trainer import Trainer, make_fused_step

FAMILIES = ("gpt2", "pythia")
"""Families that the fused step supports."""


def why_not(recipe: Recipe) -> str | None:
    """Why a recipe cannot be trained in a stack; None where it can."""
    training, spec = recipe.training, model_spec(recipe)
    for stage in recipe.stages:
        if stage.training.may_end_early:
            return "its runs may end early"
        if stage.training.accumulate > 1:
            return f"accumulate is {stage.training.accumulate}"
    if spec.pretrained is not None:
        return "it starts from pretrained weights"
    if spec.family.name not in FAMILIES:
        return f"the family {spec.family.name} is not one of {', '.join(FAMILIES)}"
    if training.program is False:
        return "program is false, and a stack needs the fused step"
    device = pick_device(training.device)
    dropout = spec.family.dropout if spec.dropout is None else spec.dropout
    if dropout and device.type != "cuda":
        return f"dropout is {dropout:g}, which on a CPU is only supported for single runs"
    vocabulary, size = make_task(recipe).vocabulary, spec.size
    return unsupported_size(
        vocabulary.size,
        vocabulary.tokens(recipe.task.length),
        size.width // size.heads,
        spec.family.name == "pythia",
        device,
        setup.precision(recipe, device),
    )


class Stack:
    """Trainers of one stage whose parameters and moments are views of stacked ones."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers = list(trainers)
        self._step = make_fused_step(self.trainers)

    def step(self, index: int) -> None:
        """One optimizer step of every seed, each on its own batch number `index`."""
        first, shape = self.trainers[0], (len(self.trainers), -1)
        settings = first.stage.training
        length = current_length(settings, index, first.stage.length)
        seeds = [trainer.stage.seed for trainer in self.trainers]
        # all runs have the same source: the data do not depend on the seed
        with self._step.prefetch():
            batch = first.objective.source.batches_of(seeds, index, settings.batch, length)
        tokens, targets = batch.tokens.unflatten(0, shape), batch.targets.unflatten(0, shape)
        losses = self._step(index, tokens, targets, learning_rate(settings, index), seeds)
        for trainer, loss in zip(self.trainers, losses.unbind(), strict=True):
            trainer.add_loss(index, loss)


@dataclass(frozen=True)
class Member:
    """One run of a stack; `plan` is that of any of its stages."""

    plan: TrainingPlan
    run: Run
    log: RunLog


class StopWhen(Callback):
    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop

    def should_stop(self) -> bool:
        return self._stop()


def train_together(
    recipes: Sequence[Recipe], runs: Sequence[Run], until: int | None, stop: Callable[[], bool]
) -> int:
    """Train runs that differ only in their seed, as `train` would one by one. Returns the number of
    steps done in the last stage.

    All runs must be at the same step of the same stage. Training stops with a checkpoint after step
    `until` of the last stage, or when `stop` returns True.
    """
    for recipe in recipes:
        reason = why_not(recipe)
        if reason is not None:
            raise StatetraceError(f"runs cannot be trained together: {reason}")
    began = time.perf_counter()
    with join(recipes[0].training.device) as world, ExitStack() as locks:
        for run in runs:
            locks.enter_context(run.lock())
        first = setup.make_plan(recipes[0], world)
        plans = [first, *(first.with_recipe(recipe) for recipe in recipes[1:])]
        at = [find_position(plan, run, Callback()) for plan, run in zip(plans, runs, strict=True)]
        _check_abreast(at)
        if at[0].stage.last and at[0].step >= _end(at[0].stage, until):
            return at[0].step
        members = [
            Member(plan, run, RunLog(plan, run, Callback(), began))
            for plan, run in zip(plans, runs, strict=True)
        ]
        ended = "stopped"
        try:
            done = _stages(members, at, until, stop)
            if done == recipes[0].stages[-1].training.steps:
                ended = "finished"
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"[:500]
            raise
        finally:
            for member in members:
                member.log.close(ended)
        return done


def _check_abreast(at: Sequence[Position]) -> None:
    """Refuse runs at different steps."""
    steps = sorted({(p.stage.number, p.step, p.stage.label) for p in at})
    if len(steps) > 1:
        names = [str(step) if stage is None else f"{step} of {stage}" for _, step, stage in steps]
        raise StatetraceError(
            f"runs at steps {', '.join(names)} cannot be trained together; "
            "train them alone until they are at the same step"
        )


def _end(stage: Stage, until: int | None) -> int:
    """The step of a stage after which to stop; `until` applies to the last stage."""
    steps = stage.training.steps
    return min(until, steps) if stage.last and until is not None else steps


def _stages(
    members: Sequence[Member],
    at: Sequence[Position],
    until: int | None,
    stop: Callable[[], bool],
) -> int:
    """Train stage after stage, each from the last checkpoints of the previous one."""
    while True:
        stage, start = at[0].stage, at[0].step
        trainers = [
            make_trainer(m.plan, m.run, position) for m, position in zip(members, at, strict=True)
        ]
        for member, trainer in zip(members, trainers, strict=True):
            member.log.start_stage(trainer, start)
        pairs = [(trainer, member.log) for member, trainer in zip(members, trainers, strict=True)]
        step = Stack(trainers).step
        done, _, stopped = train_stage(pairs, step, start, _end(stage, until), StopWhen(stop))
        if stage.last:
            return done
        if stopped:
            return 0
        del trainers, pairs, step  # the next stage needs their memory
        at = [
            Position(
                member.plan.recipe.stages[stage.number + 1],
                0,
                stage_run(member.run, stage).checkpoint(done),
            )
            for member in members
        ]
