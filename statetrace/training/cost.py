"""What a run would cost, before it is started."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from statetrace.models import parameter_count
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.parallel import World, pick_device
from statetrace.training.recipe import Recipe
from statetrace.training.trainer import Trainer

BYTES_PER_PARAMETER = 16
"""float32 weight, gradient and two moments."""

TRIAL_STEPS = 3
TRIAL_FLOPS = 2e11
"""Arithmetic of one trial step: a second or two on a laptop's CPU."""


@dataclass(frozen=True)
class Cost:
    """An estimate.

    Attributes:
        parameters: of the whole model; `block_parameters` of its blocks alone.
        tokens: read over the whole run, start markers included.
        flops: forward and backward, 6 per parameter and token (attention scores left out).
        memory: bytes for weights, gradients and optimizer; activations come on top.
        checkpoint: bytes of one checkpoint; `checkpoints` of them are written.
        step_seconds: measured on this machine without compilation, or None where the model does
            not fit or is not at hand.
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


def estimate(recipe: Recipe) -> Cost:
    """Count parameters on the meta device and time a few real steps where they fit."""
    task = setup.make_task(recipe)
    settings = recipe.training
    counted = parameter_count(
        setup.model_spec(recipe), task.vocabulary.size, setup.max_length(task)
    )
    tokens = settings.steps * settings.batch * (task.length + task.vocabulary.offset)
    device = pick_device(settings.device)
    memory = counted.total * BYTES_PER_PARAMETER
    fits = memory < free_memory(device) / 3
    return Cost(
        parameters=counted.total,
        block_parameters=counted.blocks,
        tokens=tokens,
        flops=6.0 * counted.total * tokens,
        memory=memory,
        checkpoint=counted.total * 12,
        checkpoints=-(-settings.steps // recipe.checkpoint.checkpoint_every),
        steps=settings.steps,
        step_seconds=_trial(recipe, device, counted.total) if fits else None,
    )


def free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _trial(recipe: Recipe, device: torch.device, parameters: int) -> float:
    """Seconds per step: the best of a few after one to warm up, on as many sequences of the batch
    as a few seconds allow, scaled to the whole batch."""
    task = setup.make_task(recipe)
    each = 6.0 * parameters * (task.length + task.vocabulary.offset)
    batch = max(1, min(recipe.training.batch, int(TRIAL_FLOPS / each)))
    few = {"compile": False, "accumulate": 1, "batch": batch, "analysis_fraction": 0.5}
    small = recipe.override(few | {"sequences": max(2, min(task.space, 2 * batch))})
    plan = setup.make_plan(small, World(0, 1, device))
    trainer = Trainer(plan, Run(Path(os.devnull)), setup.make_model(plan))
    times = []
    for index in range(1 + TRIAL_STEPS):
        began = time.perf_counter()
        trainer.step(index)
        trainer.read_losses()
        times.append(time.perf_counter() - began)
    return min(times[1:]) * recipe.training.batch / batch
