"""An estimate of what a run will cost."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.groups import Group
from statetrace.models import parameter_count
from statetrace.models.device import free_bytes, pick_device
from statetrace.models.from_recipe import keeps_vocabulary, make_task, max_length, model_spec
from statetrace.runs import Run
from statetrace.tasks.word_problem import WordProblem
from statetrace.training.optimizer import current_length
from statetrace.training.parallel import World
from statetrace.training.setup import make_model, make_plan
from statetrace.training.trainer import Trainer

BYTES_PER_PARAMETER = 16
"""A float32 weight, its gradient and two moments."""

TRIAL_STEPS = 3
TRIAL_FLOPS = 2e11
"""Operations of one trial step: a second or two on a laptop's CPU."""

TRIAL_SECONDS = 8.0
"""Time for finding the best number of threads; the next smaller one is not tried after that."""

GAIN = 0.9
"""More threads are used only if a step then takes at most this share of its time."""

EVALUATION = 1 / 3
"""Time of evaluating a sequence, as a share of a training step's."""


@dataclass(frozen=True)
class StageCost:
    """One stage: `batch` sequences of `tokens_each` tokens a step; `step_seconds` of one at full
    length, as in Cost; `work` in such steps, evaluations included."""

    name: str
    steps: int
    batch: int
    tokens_each: int
    checkpoints: int
    may_end_early: bool
    step_seconds: float | None
    work: float

    @property
    def tokens(self) -> int:
        return self.steps * self.batch * self.tokens_each

    @property
    def seconds(self) -> float | None:
        """The time of the whole stage."""
        return None if self.step_seconds is None else self.step_seconds * self.work


@dataclass(frozen=True)
class Cost:
    """Attributes:
    parameters: of the whole model; `block_parameters` of its blocks alone.
    tokens: processed in the whole run, start markers included.
    flops: forward and backward, 6 per parameter and token (without attention scores).
    memory: bytes for weights, gradients and optimizer, without activations.
    checkpoint: bytes of one checkpoint; `checkpoints` of them are written.
    steps: of all stages together, if none ends early.
    step_seconds: measured on this machine without compilation and averaged over the stages; None
        if the model does not fit.
    threads: CPU threads it was measured with.
    stages: the same for each stage.
    """

    parameters: int
    block_parameters: int
    tokens: int
    flops: float
    memory: int
    checkpoint: int
    checkpoints: int
    steps: int
    step_seconds: float | None
    threads: int
    stages: tuple[StageCost, ...]

    @property
    def seconds(self) -> float | None:
        """The time of the whole run; None if it could not be measured."""
        times = [stage.seconds for stage in self.stages]
        return None if None in times else sum(filter(None, times))

    @property
    def may_end_early(self) -> bool:
        return any(stage.may_end_early for stage in self.stages)


def estimate(recipe: Recipe, states: Group | None = None, threads: int | None = None) -> Cost:
    """Count parameters on the meta device, and time a few steps if the model fits.

    Leaves torch with the number of threads it was measured with: the recipe's, or `threads`, or the
    fastest. `states` is the group if the recipe has only its name.
    """
    task = make_task(recipe, states=states)
    counted = parameter_count(
        model_spec(recipe),
        task.vocabulary.size,
        max_length(recipe, task),
        keeps_vocabulary(recipe),
    )
    device = pick_device(recipe.training.device)
    memory = counted.total * BYTES_PER_PARAMETER
    fits = memory < free_bytes(device) / 3
    trials = [Trial(recipe, stage, task, device, counted.total) for stage in recipe.stages if fits]
    use_threads(recipe, threads, trials[-1] if trials else None)
    stages = []
    for stage in recipe.stages:
        settings = stage.training
        stages.append(
            StageCost(
                name=stage.name,
                steps=settings.steps,
                batch=settings.batch,
                tokens_each=task.vocabulary.tokens(stage.length),
                checkpoints=-(-settings.steps // stage.checkpoint.checkpoint_every),
                may_end_early=settings.may_end_early,
                step_seconds=trials[stage.number].seconds() if fits else None,
                work=_work(stage),
            )
        )
    tokens = sum(stage.tokens for stage in stages)
    steps = sum(stage.steps for stage in stages)
    times = [stage.step_seconds * stage.steps for stage in stages if stage.step_seconds]
    return Cost(
        parameters=counted.total,
        block_parameters=counted.blocks,
        tokens=tokens,
        flops=6.0 * counted.total * tokens,
        memory=memory,
        checkpoint=counted.total * 12,
        checkpoints=sum(stage.checkpoints for stage in stages),
        steps=steps,
        step_seconds=sum(times) / steps if fits else None,
        threads=torch.get_num_threads(),
        stages=tuple(stages),
    )


def _work(stage: Stage) -> float:
    """Training steps at full length that take as long as the whole stage."""
    settings, evaluation = stage.training, stage.evaluation
    shown = range(0, settings.steps, max(1, settings.steps // 100))
    lengths = [current_length(settings, step, stage.length) for step in shown]
    growing = sum(lengths) / len(lengths) / stage.length
    evaluations = 1 + settings.steps // evaluation.evaluate_every
    each = EVALUATION * evaluation.evaluate_sequences / settings.batch
    return settings.steps * growing + evaluations * each


class Trial:
    """Steps of a stage on as many sequences of its batch as a few seconds allow. Writes nothing."""

    def __init__(
        self, recipe: Recipe, stage: Stage, task: WordProblem, device: torch.device, parameters: int
    ) -> None:
        each = 6.0 * parameters * task.vocabulary.tokens(stage.length)
        batch = max(1, min(stage.training.batch, int(TRIAL_FLOPS / each)))
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
        self._trainer = Trainer(plan, Run(Path(os.devnull)), make_model(plan))
        self._scale = stage.training.batch / batch
        self._steps = 0

    def seconds(self) -> float:
        """Of one step: the best of a few after one to warm up, scaled to the whole batch."""
        times = []
        for _ in range(1 + TRIAL_STEPS):
            began = time.perf_counter()
            self._trainer.step(self._steps)
            self._trainer.read_losses()
            self._steps += 1
            times.append(time.perf_counter() - began)
        return min(times[1:]) * self._scale


def use_threads(recipe: Recipe, threads: int | None, trial: Trial | None) -> None:
    """Use the number of CPU threads of the recipe, else `threads`, else the fastest in a trial.
    OMP_NUM_THREADS is respected, and several processes share the cores without a trial."""
    threads = recipe.training.threads or threads
    if threads is not None:
        torch.set_num_threads(threads)
        return
    alone = int(os.environ.get("WORLD_SIZE", 1)) == 1 and "OMP_NUM_THREADS" not in os.environ
    if trial is None or not alone or pick_device(recipe.training.device).type != "cpu":
        return
    number, began = torch.get_num_threads(), time.perf_counter()
    best, fastest = number, trial.seconds()
    while number > 1 and time.perf_counter() - began < TRIAL_SECONDS:
        number = (number + 1) // 2
        torch.set_num_threads(number)
        seconds = trial.seconds()
        if seconds * GAIN < fastest:  # fewer threads are the better choice where it hardly matters
            best, fastest = number, min(seconds, fastest)
    torch.set_num_threads(best)
