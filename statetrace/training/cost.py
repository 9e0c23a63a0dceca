"""What a run would cost, before it is started."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from statetrace.config.recipe import Recipe
from statetrace.config.stages import Stage
from statetrace.models import parameter_count
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.parallel import World, pick_device
from statetrace.training.trainer import Trainer

BYTES_PER_PARAMETER = 16
"""float32 weight, gradient and two moments."""

TRIAL_STEPS = 3
TRIAL_FLOPS = 2e11
"""Arithmetic of one trial step: a second or two on a laptop's CPU."""


@dataclass(frozen=True)
class StageCost:
    """Of one stage: `batch` sequences of `tokens_each` tokens a step; `step_seconds` as in Cost."""

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
    """An estimate.

    Attributes:
        parameters: of the whole model; `block_parameters` of its blocks alone.
        tokens: read over the whole run, start markers included.
        flops: forward and backward, 6 per parameter and token (attention scores left out).
        memory: bytes for weights, gradients and optimizer; activations come on top.
        checkpoint: bytes of one checkpoint; `checkpoints` of them are written.
        steps: of all stages together, none of which ends early.
        step_seconds: measured on this machine without compilation and averaged over the stages, or
            None where the model does not fit or is not at hand.
        stages: the same of each stage.
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
    """Count parameters on the meta device and time a few real steps where they fit."""
    task = setup.make_task(recipe)
    counted = parameter_count(
        setup.model_spec(recipe),
        task.vocabulary.size,
        setup.max_length(recipe, task),
        setup.keeps_words(recipe),
    )
    device = pick_device(recipe.training.device)
    memory = counted.total * BYTES_PER_PARAMETER
    fits = memory < free_memory(device) / 3
    stages = tuple(_stage(recipe, stage, device, counted.total, fits) for stage in recipe.stages)
    tokens = sum(stage.tokens for stage in stages)
    steps = sum(stage.steps for stage in stages)
    seconds = [stage.step_seconds * stage.steps for stage in stages if stage.step_seconds]
    return Cost(
        parameters=counted.total,
        block_parameters=counted.blocks,
        tokens=tokens,
        flops=6.0 * counted.total * tokens,
        memory=memory,
        checkpoint=counted.total * 12,
        checkpoints=sum(stage.checkpoints for stage in stages),
        steps=steps,
        step_seconds=sum(seconds) / steps if len(seconds) == len(stages) else None,
        stages=stages,
    )


def _stage(
    recipe: Recipe, stage: Stage, device: torch.device, parameters: int, fits: bool
) -> StageCost:
    settings = stage.training
    vocabulary = setup.make_task(recipe).vocabulary
    return StageCost(
        name=stage.name,
        steps=settings.steps,
        batch=settings.batch,
        tokens_each=vocabulary.tokens(stage.length),
        checkpoints=-(-settings.steps // stage.checkpoint.checkpoint_every),
        may_end_early=settings.stop_at is not None or settings.stop_loss is not None,
        step_seconds=_trial(recipe, stage, device, parameters) if fits else None,
    )


def free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _trial(recipe: Recipe, stage: Stage, device: torch.device, parameters: int) -> float:
    """Seconds per step: the best of a few after one to warm up, on as many sequences of the batch
    as a few seconds allow, scaled to the whole batch."""
    task = setup.make_task(recipe)
    each = 6.0 * parameters * task.vocabulary.tokens(stage.length)
    batch = max(1, min(stage.training.batch, int(TRIAL_FLOPS / each)))
    few = {
        "compile": False,
        "program": None,
        "accumulate": 1,
        "batch": batch,
        "analysis_fraction": 0.5,
    }
    small = recipe.override(few | {"sequences": max(2, min(task.space, 2 * batch))})
    plan = setup.make_plan(small, World(0, 1, device))
    plan = plan.at(small.stages[stage.number])
    trainer = Trainer(plan, Run(Path(os.devnull)), setup.make_model(plan))
    times = []
    for index in range(1 + TRIAL_STEPS):
        began = time.perf_counter()
        trainer.step(index)
        trainer.read_losses()
        times.append(time.perf_counter() - began)
    return min(times[1:]) * stage.training.batch / batch
