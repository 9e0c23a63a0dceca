"""One model in training: a step, an evaluation, a checkpoint.

Nothing random is carried from step to step: batches come from (seed, step), dropout masks from
(seed, step, process). A resumed run therefore repeats what an uninterrupted one would have done.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from statetrace.errors import StatetraceError
from statetrace.runs import Run
from statetrace.training import checkpoint, setup
from statetrace.training.evaluate import accuracy, loss, predict
from statetrace.training.optimizer import (
    adamw,
    current_length,
    export,
    learning_rate,
    set_learning_rate,
    whole,
)
from statetrace.training.parallel import local_gradients, spread
from statetrace.training.setup import Plan


class NonFiniteLoss(StatetraceError):
    """The loss became NaN or infinite."""

    def __init__(self, run: Run, step: int, value: float, rate: float) -> None:
        kept = [folder for _, folder in run.checkpoints()]
        where = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint existed yet"
        super().__init__(
            f"the loss became {value} at step {step}, so the run was stopped; {where}; "
            f"a smaller learning_rate than {rate:g}, or some warmup, usually helps"
        )


class Trainer:
    """Model, optimizer and data of one run, on their device.

    Attributes:
        plan: what is to be done.
        model: the Hugging Face model; `module` is what is called, its wrapper under DDP.
        optimizer: AdamW over the model's parameters.
        split, analysis: training sequences, and those that evaluations use.
    """

    def __init__(self, plan: Plan, run: Run, model: Any) -> None:
        recipe, device = plan.recipe, plan.world.device
        self.plan, self.run = plan, run
        self.model = model.to(device).train()
        if setup.wants_compile(plan):
            # one program per shape: which shape came first must not decide what is computed
            self.model.compile(dynamic=False)
        self.module = spread(self.model, plan.world, recipe.training.parallel)
        self.optimizer = adamw(self.model, recipe.training)
        training, analysis = plan.splits
        self.split = plan.task.split(training, device)
        self.analysis = plan.task.split(analysis[: recipe.evaluation.evaluate_sequences], device)
        self._unread: list[tuple[int, torch.Tensor]] = []

    def step(self, index: int) -> None:
        """One optimizer step on batch number `index`."""
        settings, world = self.plan.recipe.training, self.plan.world
        torch.manual_seed((settings.seed << 40) ^ (index << 8) ^ world.rank)
        set_learning_rate(self.optimizer, learning_rate(settings, index))
        length = current_length(settings, index, self.split.length)
        part = world.part(settings.batch)
        batch = self.split.batch(settings.seed, index, settings.batch, part, length)
        parts = zip(
            batch.tokens.chunk(settings.accumulate),
            batch.targets.chunk(settings.accumulate),
            strict=True,
        )
        total = torch.zeros((), device=world.device)
        for number, (tokens, targets) in enumerate(parts, start=1):
            last = number == settings.accumulate
            with nullcontext() if last else local_gradients(self.module):
                with self.plan.autocast:
                    logits = predict(self.module, tokens)
                value = loss(logits, targets) / settings.accumulate
                value.backward()
            total += value.detach()
        if settings.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._unread.append((index + 1, total))

    def read_losses(self) -> float:
        """The latest training loss. Reading waits for the GPU, so it is done now and then; the
        losses in between are checked together here, and a non-finite one ends the run."""
        losses = torch.stack([value for _, value in self._unread])
        if self.plan.world.size > 1:
            torch.distributed.all_reduce(losses)
            losses /= self.plan.world.size
        values: list[float] = losses.tolist()
        for (step, _), value in zip(self._unread, values, strict=True):
            if not math.isfinite(value):
                rate = self.plan.recipe.training.learning_rate
                raise NonFiniteLoss(self.run, step, value, rate)
        self._unread.clear()
        return values[-1]

    def evaluate(self, step: int) -> dict[str, Any]:
        """A record for metrics.jsonl. All processes compute it, as a sharded model needs."""
        plan = self.plan
        measured = accuracy(
            self.module, plan.task, self.analysis, plan.quotients, autocast=plan.autocast
        )
        return measured.record(step)

    def save(self, step: int) -> None:
        """Write a checkpoint: all processes gather, the leading one writes."""
        recipe, world = self.plan.recipe, self.plan.world
        snapshot = checkpoint.Snapshot(
            step=step,
            weights={name: whole(tensor) for name, tensor in self.model.state_dict().items()},
            moments=export(self.optimizer, self.model.named_parameters()),
            state={
                "schedule": {"kind": recipe.training.schedule, "step": step},
                "random": {"seed": recipe.training.seed, "step": step},
                "recipe": recipe.to_dict(),
            },
        )
        if world.leads:
            checkpoint.save(self.run, self.model, snapshot, recipe.checkpoint.keep)
        world.wait()
