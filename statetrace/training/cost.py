"""An estimate of what a run will cost."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.models import parameter_count
from statetrace.models.device import free_bytes, pick_device
from statetrace.models.from_recipe import keeps_vocabulary, make_task, max_length, model_spec
from statetrace.runs import Run
from statetrace.tasks.word_problem import WordProblem
from statetrace.training.parallel import World
from statetrace.training.setup import make_model, make_plan
from statetrace.training.trainer import Trainer

BYTES_PER_PARAMETER = 16
"""A float32 weight, its gradient and two moments."""

TRIAL_STEPS = 3
TRIAL_FLOPS = 2e11
"""Operations of one trial step: a second or two on a laptop's CPU."""


@dataclass(frozen=True)
class StageCost:
    """One stage: `batch` sequences of `tokens_each` tokens a step; `step_seconds` as in Cost."""

    name: str
    steps: int
    batch: int
    tokens_each: int
    checkpoints: int
    may_end_early: bool
    step_seconds: float | None

    @property
    def tokens(self) -> int:
        return self.steps * self.batch * self.tokens_each


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
    stages: tuple[StageCost, ...]


def estimate(recipe: Recipe) -> Cost:
    """Count parameters on the meta device, and time a few steps if the model fits."""
    task = make_task(recipe)
    counted = parameter_count(
        model_spec(recipe),
        task.vocabulary.size,
        max_length(recipe, task),
        keeps_vocabulary(recipe),
    )
    device = pick_device(recipe.training.device)
    memory = counted.total * BYTES_PER_PARAMETER
    fits = memory < free_bytes(device) / 3
    stages = []
    for stage in recipe.stages:
        settings = stage.training
        seconds = _trial(recipe, stage, task, device, counted.total) if fits else None
        stages.append(
            StageCost(
                name=stage.name,
                steps=settings.steps,
                batch=settings.batch,
                tokens_each=task.vocabulary.tokens(stage.length),
                checkpoints=-(-settings.steps // stage.checkpoint.checkpoint_every),
                may_end_early=settings.stop_at is not None or settings.stop_loss is not None,
                step_seconds=seconds,
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
        step_seconds=sum(times) / steps if len(times) == len(stages) else None,
        stages=tuple(stages),
    )


def _trial(
    recipe: Recipe, stage: Stage, task: WordProblem, device: torch.device, parameters: int
) -> float:
    """Seconds per step: the best of a few after one to warm up, on as many sequences of the batch
    as a few seconds allow, scaled to the whole batch."""
    each = 6.0 * parameters * task.vocabulary.tokens(stage.length)
    batch = max(1, min(stage.training.batch, int(TRIAL_FLOPS / each)))
    changes = {
        "compile": False,
        "program": None,
        "accumulate": 1,
        "batch": batch,
        "analysis_fraction": 0.5,
        "sequences": max(2, min(task.space, 2 * batch)),
    }
    small = recipe.override(changes)
    plan = make_plan(small, World(0, 1, device)).at(small.stages[stage.number])
    trainer = Trainer(plan, Run(Path(os.devnull)), make_model(plan))
    times = []
    for index in range(1 + TRIAL_STEPS):
        began = time.perf_counter()
        trainer.step(index)
        trainer.read_losses()
        times.append(time.perf_counter() - began)
    return min(times[1:]) * stage.training.batch / batch
