"""An estimate of what a run will cost."""

from __future__ import annotations

import os
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from statetrace.config.memory import BYTES_PER_PARAMETER
from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.groups import Group
from statetrace.models import parameter_count
from statetrace.models.device import free_bytes, pick_device
from statetrace.models.from_recipe import keeps_vocabulary, make_task, max_length, model_spec
from statetrace.models.threads import fastest_threads
from statetrace.runs import Run
from statetrace.tasks.word_problem import WordProblem
from statetrace.training.optimizer import current_length
from statetrace.training.parallel import World
from statetrace.training.setup import make_model, make_plan
from statetrace.training.trainer import Trainer, stepper

BYTES_SAVED = 12
"""Of each parameter in a checkpoint: the weight and two moments."""

TRIAL_STEPS = 3
TRIAL_FLOPS = 2e11
"""Operations of one trial step: a second or two on a laptop's CPU."""

THREADS_FLOPS = 2e10
"""The same where several numbers of threads are tried."""

EVALUATION = 1 / 3
"""Time of evaluating a sequence, as a share of a training step's."""


@dataclass(frozen=True)
class StageCost:
    """One stage: sequences of `tokens_each` tokens, start marker included; `step_seconds` of a step
    at full length, measured on this machine without compilation, None if the model does not fit."""

    stage: Stage
    tokens_each: int
    step_seconds: float | None

    @property
    def tokens(self) -> int:
        return self.stage.training.steps * self.stage.training.batch * self.tokens_each

    @property
    def checkpoints(self) -> int:
        return -(-self.stage.training.steps // self.stage.checkpoint.checkpoint_every)

    def seconds(self, start: int = 0) -> float:
        """From step `start` to the end of the stage, evaluations included. Steps are faster while
        sequences grow."""
        settings, evaluation = self.stage.training, self.stage.evaluation
        steps = settings.steps - start
        shown = range(start, settings.steps, max(1, steps // 100))
        length = sum(current_length(settings, step, self.stage.length) for step in shown)
        training = steps * length / max(1, len(shown)) / self.stage.length
        evaluated = (1 + steps // evaluation.evaluate_every) * evaluation.evaluate_sequences
        return (self.step_seconds or 0.0) * (training + EVALUATION * evaluated / settings.batch)

    def prolonged(self, steps: int) -> StageCost:
        """The cost of the same stage with more steps."""
        return replace(self, stage=self.stage.prolonged(steps))


@dataclass(frozen=True)
class Cost:
    """What a run costs if no stage ends early and none is prolonged.

    Attributes:
        parameters: of the whole model; `block_parameters` of its blocks alone.
        threads: CPU threads that steps were measured with.
    """

    parameters: int
    block_parameters: int
    threads: int
    stages: tuple[StageCost, ...]

    @property
    def steps(self) -> int:
        return sum(each.stage.training.steps for each in self.stages)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.stages)

    @property
    def flops(self) -> float:
        """Forward and backward, 6 per parameter and token (without attention scores)."""
        return 6.0 * self.parameters * self.tokens

    @property
    def seconds(self) -> float | None:
        """None if the model does not fit."""
        measured = all(each.step_seconds is not None for each in self.stages)
        return sum(each.seconds() for each in self.stages) if measured else None

    def prolonged(self, steps: int) -> Cost:
        """The cost of the same run with more steps in its last stage."""
        return replace(self, stages=(*self.stages[:-1], self.stages[-1].prolonged(steps)))


def estimate(recipe: Recipe, states: Group | None = None, threads: int | None = None) -> Cost:
    """Count parameters on the meta device, and time a few steps if the model fits.

    Leaves torch with the number of threads it was measured with: the recipe's, or `threads`, or the
    fastest. `states` is the group if the recipe has only its name.
    """
    task = make_task(recipe, states=states)
    keep, tokens = keeps_vocabulary(recipe), max_length(recipe, task)
    counted = parameter_count(model_spec(recipe), task.vocabulary.size, tokens, keep)
    device = pick_device(recipe.training.device)
    fits = counted.total * BYTES_PER_PARAMETER < free_bytes(device) / 3

    def trial(stage: Stage, flops: float = TRIAL_FLOPS) -> Trial:
        return Trial(recipe, stage, task, device, flops / counted.total)

    if fits:
        use_threads(recipe, threads, lambda: trial(recipe.stages[-1], THREADS_FLOPS))
    stages = []
    for stage in recipe.stages:
        seconds = trial(stage).seconds() if fits else None
        stages.append(StageCost(stage, task.vocabulary.tokens(stage.length), seconds))
    return Cost(counted.total, counted.blocks, torch.get_num_threads(), tuple(stages))


class Trial:
    """Steps of a stage on part of its batch, of `most` operations per parameter. Writes nothing."""

    def __init__(
        self, recipe: Recipe, stage: Stage, task: WordProblem, device: torch.device, most: float
    ) -> None:
        each = 6.0 * task.vocabulary.tokens(stage.length)
        batch = max(1, min(stage.training.batch, int(most / each)))
        changes = {
            "compile": False,
            "program": None,
            "accumulate": 1,
            "batch": batch,
            "grow": 0.0,
            "analysis_fraction": 0.5,
            "sequences": max(2, min(task.space, 2 * batch)),
        }
        small = recipe.override(changes)
        plan = make_plan(small, World(0, 1, device), task.group).at(small.stages[stage.number])
        trainer = Trainer(plan, Run(Path(os.devnull)), make_model(plan))
        self._training, self._steps = stepper([trainer]), count()
        self._scale = stage.training.batch / batch

    def step(self) -> None:
        self._training.step(next(self._steps))
        self._training.read_losses()

    def seconds(self) -> float:
        """Of one step: the best of a few after one to warm up, scaled to the whole batch."""
        return min(timeit.repeat(self.step, repeat=1 + TRIAL_STEPS, number=1)[1:]) * self._scale


def use_threads(recipe: Recipe, threads: int | None, make_trial: Callable[[], Trial]) -> None:
    """Use the number of CPU threads of the recipe, else `threads`, else the fastest in a trial.
    OMP_NUM_THREADS is respected."""
    threads, device = recipe.training.threads or threads, pick_device(recipe.training.device)
    if threads is None and device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        threads, _ = fastest_threads(make_trial().step, device)
    if threads is not None:
        torch.set_num_threads(threads)
