"""One model in training: a step, an evaluation, a checkpoint.

Nothing random is carried from step to step: batches come from (seed, stage, step), dropout masks
from (seed, stage, step, process). A resumed run therefore repeats what an uninterrupted one would
have done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from statetrace.errors import StatetraceError
from statetrace.runs import Run
from statetrace.tasks.batch import Batch
from statetrace.training import checkpoint, setup
from statetrace.training.auxiliary import Reader, reading
from statetrace.training.evaluate import accuracy, predict
from statetrace.training.fused import Step
from statetrace.training.objectives import Source, make_objective, measure
from statetrace.training.objectives.objective import ROWS
from statetrace.training.optimizer import (
    adamw,
    current_length,
    export,
    learning_rate,
    put,
    restore,
    set_learning_rate,
    whole,
)
from statetrace.training.parallel import local_gradients, spread
from statetrace.training.setup import TrainingPlan


class NonFiniteLoss(StatetraceError):
    """The loss became NaN or infinite."""

    def __init__(self, run: Run, step: int, value: float, rate: float) -> None:
        kept = [folder for _, folder in run.checkpoints()]
        where = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint existed yet"
        super().__init__(
            f"the loss became {value} at step {step}, so the run was stopped; {where}; "
            f"a smaller learning_rate than {rate:g}, or some warmup, usually helps"
        )


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        records: for metrics.jsonl.
        accuracy, loss: of what the stage teaches, at the lengths it teaches; stopping rules ask.
    """

    records: tuple[dict[str, Any], ...]
    accuracy: float
    loss: float


class Trainer:
    """Model, optimizer and data of one stage, on their device.

    Attributes:
        plan: what is to be done.
        run: where its checkpoints go.
        model: the Hugging Face model; `module` is what is called, its wrapper under DDP.
        optimizer: AdamW over the model's parameters.
        objective: what is taught; its batches.
        reader: model and auxiliary classifier, where the stage has one.
        split: its training batches, of the state task the training sequences.
        analysis: the sequences that evaluations of the state use.
        by_program: whether steps are made by the program rather than by calling the model.
    """

    def __init__(self, plan: TrainingPlan, run: Run, model: Any) -> None:
        device = plan.world.device
        self.plan, self.stage, self.run = plan, plan.stage, run
        self.model = model.to(device).train()
        self.objective = make_objective(plan, self.stage, device)
        one = self.split.batch(self.stage.seed, 0, 1, slice(None), self.stage.length)
        self.by_program = setup.wants_program(plan, model.config, one.tokens.shape[1])
        if setup.wants_compile(plan, self.by_program):
            # an earlier stage's programs must not count against the limit on recompilation,
            # beyond which models run uncompiled: a resumed run would not have them
            torch.compiler.reset()
            # one program per shape: which shape came first must not decide what is computed
            self.model.compile(dynamic=False)
        self.reader = None
        if self.objective.auxiliary is not None:
            self.reader = Reader(self.model, self.objective.auxiliary).to(device)
        core = self.model if self.reader is None else self.reader
        self.module = spread(core, plan.world, plan.recipe.training.parallel, self.model)
        self.optimizer = adamw(core, self.stage.training)
        analysis = plan.splits[1][: self.stage.evaluation.evaluate_sequences]
        self.analysis = plan.task.split(analysis, device)
        self._program: Step | None = None
        self._unread: list[tuple[int, torch.Tensor]] = []

    @property
    def split(self) -> Source:
        return self.objective.source

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """All that is trained, the auxiliary classifier last."""
        extra = [] if self.reader is None else self.reader.named()
        return [*self.model.named_parameters(), *extra]

    def resume(self, folder: Path) -> None:
        """Take up the optimizer of a checkpoint of this stage, and its auxiliary classifier."""
        if checkpoint.fingerprint(folder) != self.objective.fingerprint:
            raise StatetraceError(
                f"the data of stage {self.stage.name} have changed since {folder} was written; "
                "put back what was there, or start a new run"
            )
        restore(self.optimizer, self.named_parameters(), checkpoint.moments(folder))
        if self.reader is not None:
            put(self.reader.named(), checkpoint.auxiliary(folder))

    def step(self, index: int) -> None:
        """One optimizer step on batch number `index`."""
        settings, world, seed = self.stage.training, self.plan.world, self.stage.seed
        if self.by_program:
            program, rate = self._whole_step(), learning_rate(settings, index)
            with program.beside():
                batch = self.batch(index)
            self.note(
                index, program(index, batch.tokens[None], batch.targets[None], rate, [seed])[0]
            )
            return
        batch = self.batch(index)
        torch.manual_seed((seed << 40) ^ (index << 8) ^ world.rank)
        set_learning_rate(self.optimizer, learning_rate(settings, index))
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
                value = self.objective.loss(logits, targets) / settings.accumulate
                extra = 0 if self.reader is None else self.reader.loss(targets)
                (value + extra / settings.accumulate).backward()
            total += value.detach()
        if settings.clip:
            parameters = [parameter for _, parameter in self.named_parameters()]
            nn.utils.clip_grad_norm_(parameters, settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.note(index, total)

    def batch(self, index: int) -> Batch:
        """This process's part of batch number `index`."""
        settings = self.stage.training
        length = current_length(settings, index, self.stage.length)
        part = self.plan.world.part(settings.batch)
        return self.split.batch(self.stage.seed, index, settings.batch, part, length)

    def _whole_step(self) -> Step:
        """The program; it takes model and moments over at the first step."""
        if self._program is None:
            self._program = whole_step([self])
        return self._program

    def note(self, index: int, value: torch.Tensor) -> None:
        """Keep the loss of step `index` for `read_losses`."""
        self._unread.append((index + 1, value))

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
                rate = self.stage.training.learning_rate
                raise NonFiniteLoss(self.run, step, value, rate)
        self._unread.clear()
        return values[-1]

    def evaluate(self, step: int) -> Evaluation:
        """The stage's own objective, where that is another, and how the state is tracked. All
        processes compute it, as a sharded model needs."""
        plan, objective, length = self.plan, self.objective, self.stage.length
        records: list[dict[str, Any]] = []
        if objective.held_out:
            value, share = measure(self.module, objective, objective.held_out, plan.autocast)
            right = {objective.what: share}
            records.append({"kind": "objective", "step": step, "loss": value, "accuracy": right})
        if self.reader is not None:
            batches = self.analysis.batches(ROWS, length)
            right = reading(self.module, self.reader, batches, plan.autocast)
            records.append({"kind": "auxiliary", "step": step, "accuracy": right})
        if objective.tracks_state:
            measured = accuracy(
                self.module, plan.task, self.analysis, plan.quotients, autocast=plan.autocast
            )
            records.append(measured.record(step))
            if not objective.held_out:
                share = sum(measured.by_length["state"][:length]) / length
                value = sum(measured.loss[:length]) / length
        return Evaluation(tuple(records), share, value)

    def save(self, step: int, ended: str | None = None) -> None:
        """Write a checkpoint: all processes gather, the leading one writes. `ended` says why the
        stage ends here although steps are left."""
        stage, world = self.stage, self.plan.world
        notes = {"stage": stage.label, "ended": ended, "fingerprint": self.objective.fingerprint}
        snapshot = checkpoint.Snapshot(
            step=step,
            weights={name: whole(tensor) for name, tensor in self.model.state_dict().items()},
            moments=export(self.optimizer, self.named_parameters()),
            auxiliary={} if self.reader is None else {n: whole(p) for n, p in self.reader.named()},
            files=self.objective.vocabulary.files(),
            state={
                "schedule": {"kind": stage.training.schedule, "step": step},
                "random": {"seed": stage.seed, "step": step},
                "recipe": self.plan.recipe.to_dict(),
                **{key: value for key, value in notes.items() if value is not None},
            },
        )
        if world.leads:
            checkpoint.save(self.run, self.model, snapshot, stage.checkpoint.keep)
        world.wait()


def whole_step(trainers: Sequence[Trainer]) -> Step:
    """The program of trainers whose plans differ in the seed alone; it takes over their models,
    auxiliary classifiers and moments, which become views of its own."""
    first = trainers[0]
    step = Step(
        [trainer.model for trainer in trainers],
        first.stage.training,
        first.objective.loss,
        setup.precision(first.plan.recipe, first.plan.world.device),
        [trainer.reader for trainer in trainers if trainer.reader is not None],
    )
    for number, trainer in enumerate(trainers):
        step.adopt(number, trainer.optimizer)
    return step
