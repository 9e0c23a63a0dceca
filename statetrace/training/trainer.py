"""One model in training: steps, evaluations, checkpoints.

No random state is carried from step to step: batches depend on (seed, stage, step), dropout masks
on (seed, stage, step, process). A resumed run therefore repeats an uninterrupted one exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from statetrace.errors import StatetraceError
from statetrace.models.checkpoint import quiet
from statetrace.models.predict import predict
from statetrace.runs import LOG, Run
from statetrace.training import checkpoint, setup
from statetrace.training.auxiliary import ModelWithAuxiliary, evaluate_auxiliary
from statetrace.training.evaluate import Accuracy, accuracy, stacked_accuracy
from statetrace.training.fused import FusedStep
from statetrace.training.objectives import evaluate_objective
from statetrace.training.objectives.objective import ROWS
from statetrace.training.optimizer import (
    adamw,
    current_length,
    export,
    gather,
    learning_rate,
    load_parameters,
    restore,
    set_learning_rate,
)
from statetrace.training.parallel import local_gradients, spread
from statetrace.training.setup import TrainingPlan

WRITERS = 8
"""Checkpoints that are written at the same time."""


class NonFiniteLoss(StatetraceError):
    """The loss became NaN or infinite."""

    def __init__(self, run: Run, step: int, value: float, rate: float) -> None:
        saved = [folder for _, folder in run.checkpoints()]
        where = f"the last checkpoint is {saved[-1]}" if saved else "there was no checkpoint yet"
        super().__init__(
            f"the loss became {value} at step {step}, so the run was stopped; {where}; "
            f"use a learning_rate below {rate:g}, or some warmup"
        )


@dataclass(frozen=True)
class Evaluation:
    """Attributes:
    records: for metrics.jsonl.
    accuracy, loss: of the stage's objective at its lengths, for the stopping rules.
    lowest: its accuracy at the length where that is lowest.
    """

    records: tuple[dict[str, Any], ...]
    accuracy: float
    loss: float
    lowest: float


class Trainer:
    """Model, optimizer and data of one stage, on their device.

    Attributes:
        plan, stage: what to train.
        run: the folder for its checkpoints.
        model: the Hugging Face model; `module` is what is called, its wrapper under DDP.
        optimizer: AdamW over the model's parameters.
        objective: what is trained, with its batches.
        auxiliary: the model with its auxiliary classifier, if the stage has one.
        uses_fused_step: whether `stepper` takes the fused training step.
        lowest: the lowest accuracy of the last evaluation at any length; 0 before the first.
    """

    def __init__(self, plan: TrainingPlan, run: Run, model: Any) -> None:
        device = plan.world.device
        self.plan, self.stage, self.run = plan, plan.stage, run
        self.model = model.to(device).train()
        self.objective = plan.objective
        example = self.objective.source.batch(self.stage.seed, 0, 1, length=self.stage.length)
        tokens = example.tokens.shape[1]
        self.uses_fused_step = setup.use_fused_step(plan, model.config, tokens)
        if setup.use_compile(plan, self.uses_fused_step):
            # models compiled in an earlier stage must not count against the recompilation limit,
            # beyond which models run uncompiled: a resumed run would not have them
            torch.compiler.reset()
            # one compilation per shape: which shape came first must not affect the numbers
            self.model.compile(dynamic=False)
        self.auxiliary = None
        if self.objective.auxiliary is not None:
            self.auxiliary = ModelWithAuxiliary(self.model, self.objective.auxiliary).to(device)
        core = self.model if self.auxiliary is None else self.auxiliary
        self.module = spread(core, plan.world, plan.recipe.training.parallel, self.model)
        self.optimizer = adamw(core, self.stage.training)
        self.lowest = 0.0
        self._unread: list[tuple[int, torch.Tensor]] = []

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """Everything that is trained, the auxiliary classifier last."""
        extra = [] if self.auxiliary is None else self.auxiliary.named_classifier()
        return [*self.model.named_parameters(), *extra]

    def resume(self, folder: Path) -> None:
        """Restore the optimizer and the auxiliary classifier of a checkpoint of this stage."""
        notes = checkpoint.notes(folder)
        data = notes.get("data", self.plan.data)  # older checkpoints have none
        if notes.get("fingerprint") != self.objective.fingerprint or data != self.plan.data:
            raise StatetraceError(
                f"the data of stage {self.stage.name} have changed since {folder} was written; "
                "restore them, or start a new run"
            )
        restore(self.optimizer, self.named_parameters(), checkpoint.moments(folder))
        self.lowest = float(notes.get("lowest_accuracy", 0))
        if self.auxiliary is not None:
            load_parameters(self.auxiliary.named_classifier(), checkpoint.auxiliary(folder))

    def step(self, index: int) -> None:
        """One optimizer step on batch number `index`, by calling the model; see `stepper`."""
        settings, world = self.stage.training, self.plan.world
        length = current_length(settings, index, self.stage.length)
        batch = self.objective.source.batch(
            self.stage.seed, index, settings.batch, world.part(settings.batch), length
        )
        torch.manual_seed((self.stage.seed << 40) ^ (index << 8) ^ world.rank)
        set_learning_rate(self.optimizer, learning_rate(settings, index))
        chunks = (each.chunk(settings.accumulate) for each in (batch.tokens, batch.targets))
        parts = zip(*chunks, strict=True)
        total = torch.zeros((), device=world.device)
        for number, (tokens, targets) in enumerate(parts, start=1):
            last = number == settings.accumulate
            with nullcontext() if last else local_gradients(self.module):
                with self.plan.autocast:
                    logits = predict(self.module, tokens)
                value = self.objective.loss(logits, targets) / settings.accumulate
                extra: torch.Tensor | float = 0
                if self.auxiliary is not None:
                    extra = self.auxiliary.loss(self.auxiliary.logits, targets)
                (value + extra / settings.accumulate).backward()
            total += value.detach()
        if settings.clip:
            parameters = [parameter for _, parameter in self.named_parameters()]
            nn.utils.clip_grad_norm_(parameters, settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._unread.append((index + 1, total))

    def read_losses(self) -> list[float]:
        """The latest training loss, in a list. Reading waits for the GPU, so it is done only
        occasionally; all losses since the last call are checked, and a non-finite one ends the
        run."""
        losses = torch.stack([value for _, value in self._unread])
        if self.plan.world.size > 1:
            torch.distributed.all_reduce(losses)
            losses /= self.plan.world.size
        values: list[float] = losses.tolist()
        self.check_losses([step for step, _ in self._unread], values)
        self._unread.clear()
        return values[-1:]

    def check_losses(self, steps: Sequence[int], values: Sequence[float]) -> None:
        for step, value in zip(steps, values, strict=True):
            if not math.isfinite(value):
                rate = self.stage.training.learning_rate
                raise NonFiniteLoss(self.run, step, value, rate)

    def evaluate(self, step: int, states: Accuracy | None = None) -> Evaluation:
        """Evaluate the state, and the stage's objective if that is another one. All processes take
        part, as a sharded model requires. `states` is the accuracy of the state if known."""
        plan, objective, length = self.plan, self.objective, self.stage.length
        records: list[dict[str, Any]] = []
        if objective.held_out:
            loss, share = evaluate_objective(
                self.module, objective, objective.held_out, plan.autocast
            )
            shares, lowest = {objective.name: share}, share
            records.append({"kind": "objective", "step": step, "loss": loss, "accuracy": shares})
        if self.auxiliary is not None:
            batches = plan.analysis.batches(ROWS, length)
            shares = evaluate_auxiliary(self.module, self.auxiliary, batches, plan.autocast)
            records.append({"kind": "auxiliary", "step": step, "accuracy": shares})
        if objective.tracks_state:
            states = states or accuracy(
                self.module, plan.task, plan.analysis, plan.quotients, plan.autocast
            )
            records.append(states.record(step))
            if not objective.held_out:
                by_length = states.by_length["state"][:length]
                share, lowest = sum(by_length) / length, min(by_length)
                loss = sum(states.loss[:length]) / length
        return Evaluation(tuple(records), share, loss, lowest)

    def stopping_reason(self, step: int, evaluation: Evaluation) -> str | None:
        """Why the stage may end before its last step, or None. Called once per evaluation."""
        settings, lowest = self.stage.training, min(evaluation.lowest, self.lowest)
        self.lowest = evaluation.lowest
        if settings.stop_at is not None and evaluation.accuracy >= settings.stop_at:
            rule = f"stop_at is {settings.stop_at:g}"
            return f"accuracy was {evaluation.accuracy:.2%} at step {step:,}, and {rule}"
        if settings.stop_loss is not None and evaluation.loss <= settings.stop_loss:
            rule = f"stop_loss is {settings.stop_loss:g}"
            return f"the loss was {evaluation.loss:.4f} at step {step:,}, and {rule}"
        if settings.stop_learned is not None and lowest >= settings.stop_learned:
            rule = f"stop_learned is {settings.stop_learned:g}"
            return f"accuracy was at least {lowest:.1%} at every length, twice in a row, and {rule}"
        return None

    def save(self, step: int, ended: str | None = None, log: str = "") -> None:
        """Write a checkpoint: all processes gather, the leading one writes. `ended` is the reason
        why the stage ends here before its last step, `log` the run's log so far."""
        stage, world = self.stage, self.plan.world
        classifier = [] if self.auxiliary is None else self.auxiliary.named_classifier()
        notes = {"stage": stage.label, "ended": ended, "fingerprint": self.objective.fingerprint,
                 "data": self.plan.data}  # fmt: skip
        if stage.training.stop_learned is not None:
            notes["lowest_accuracy"] = repr(self.lowest)
        snapshot = checkpoint.Snapshot(
            step=step,
            weights={name: gather(tensor) for name, tensor in self.model.state_dict().items()},
            moments=export(self.optimizer, self.named_parameters()),
            auxiliary={name: gather(parameter) for name, parameter in classifier},
            files=self.objective.vocabulary.files() | {LOG: log},
            state={
                "schedule": {
                    "kind": stage.training.schedule,
                    "step": step,
                    "steps": stage.training.steps,
                },
                "random": {"seed": stage.seed, "step": step},
                "recipe": self.plan.recipe.to_dict(),
                **{key: value for key, value in notes.items() if value is not None},
            },
        )
        if world.leads:
            checkpoint.save(self.run, self.model, snapshot, stage.checkpoint.keep)
        world.wait()


class Stack:
    """Trainers whose plans differ in the seed alone, with one fused step for all. It takes over
    their models, auxiliary classifiers and moments, which become views of stacked tensors."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        first, self.trainers = trainers[0], trainers
        self._step = FusedStep(
            [trainer.model for trainer in trainers],
            first.stage.training,
            first.objective.loss,
            setup.precision(first.plan.recipe, first.plan.world.device),
            [trainer.auxiliary for trainer in trainers if trainer.auxiliary is not None],
        )
        for number, trainer in enumerate(trainers):
            self._step.adopt(number, trainer.optimizer)
        self._unread: list[tuple[int, torch.Tensor]] = []  # step, losses [S]

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
        self._unread.append((index + 1, losses))

    def read_losses(self) -> list[float]:
        """The latest loss of each trainer; see `Trainer.read_losses`."""
        losses = torch.stack([values for _, values in self._unread], dim=1).tolist()
        steps = [step for step, _ in self._unread]
        for trainer, values in zip(self.trainers, losses, strict=True):
            trainer.check_losses(steps, values)
        self._unread.clear()
        return [values[-1] for values in losses]


def evaluate(trainers: Sequence[Trainer], step: int) -> list[Evaluation]:
    """Evaluate trainers that take their steps together; their states at once."""
    plan = trainers[0].plan
    if len(trainers) == 1 or not trainers[0].objective.tracks_state:
        return [trainer.evaluate(step) for trainer in trainers]
    models = [trainer.model for trainer in trainers]
    states = stacked_accuracy(models, plan.task, plan.analysis, plan.quotients, plan.autocast)
    return [trainer.evaluate(step, known) for trainer, known in zip(trainers, states, strict=True)]


def save(
    trainers: Sequence[Trainer], step: int, reasons: Sequence[str | None], logs: Sequence[str]
) -> None:
    """Write a checkpoint of each trainer, with the reason why its stage ends here and its log;
    several at a time, because most of it is waiting for the disk."""
    if len(trainers) == 1:
        trainers[0].save(step, reasons[0], logs[0])
        return
    with quiet(), ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(Trainer.save, trainers, [step] * len(trainers), reasons, logs))


def stepper(trainers: Sequence[Trainer]) -> Trainer | Stack:
    """The object that takes the steps of all trainers: a stack if there are several or the trainer
    uses the fused step, else the trainer."""
    if len(trainers) > 1 or trainers[0].uses_fused_step:
        return Stack(trainers)
    return trainers[0]
