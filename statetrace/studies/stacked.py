"""Several seeds of a small model as one batched program: parameters stacked, one step for all.

A model of width 64 keeps a processor busy with calling small operations rather than with doing
them; sixteen of them in one call cost little more than one. Every seed has its own solo trainer,
whose parameters and moments are views of the stacked ones, so logs, evaluations and checkpoints are
those of a solo run, and each run can be resumed alone.

Cost: memory for all seeds at once; evaluations are made one seed after the other.
Caveat: sums are taken in another order, so numbers equal those of a solo run up to rounding, not
bit for bit; over many steps such differences grow, as between two kinds of processor. Only one
stage of the state task, without dropout and without an early end, can be stacked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.training import checkpoint, setup
from statetrace.training.book import Book
from statetrace.training.listener import Quiet
from statetrace.training.optimizer import current_length, learning_rate, set_learning_rate
from statetrace.training.parallel import join
from statetrace.training.recipe import Recipe
from statetrace.training.setup import Plan
from statetrace.training.trainer import Trainer

FAMILIES = ("gpt2", "pythia", "llama")
"""Whose forward pass torch.func can batch, as tests/studies/test_stacked.py shows."""


def why_not(recipe: Recipe) -> str | None:
    """What keeps a recipe from being trained in a stack, or None."""
    training, stages = recipe.training, recipe.stages
    spec = setup.model_spec(recipe)
    if len(stages) > 1 or stages[0].wanted.objective != "state" or stages[0].wanted.auxiliary:
        return "it is more than one stage of the state task"
    if stages[0].training.stop_at is not None or stages[0].training.stop_loss is not None:
        return "its runs may end early"
    if training.accumulate > 1:
        return f"accumulate is {training.accumulate}"
    if spec.pretrained is not None:
        return "it starts from pretrained weights"
    if spec.family.name not in FAMILIES:
        return f"the family {spec.family.name} is none of {', '.join(FAMILIES)}"
    dropout = spec.family.dropout if spec.dropout is None else spec.dropout
    return f"dropout is {dropout:g}, whose masks belong to a single run" if dropout else None


class Stack:
    """Solo trainers whose parameters are views of stacked ones."""

    def __init__(self, trainers: Sequence[Trainer], compiled: bool = False) -> None:
        self.trainers = list(trainers)
        first = self.trainers[0]
        # batched attention has no rule for the fused kernels; plain products have
        self._template = copy.deepcopy(first.model).eval()
        self._template.set_attn_implementation("eager")
        named = [dict(trainer.named_parameters()) for trainer in self.trainers]
        self._stacked = {
            name: torch.stack([one[name].detach() for one in named]) for name in named[0]
        }  # name -> [seeds, ...]
        for number, one in enumerate(named):
            for name, parameter in one.items():
                parameter.data = self._stacked[name][number]
        self._optimizer = self._make_optimizer(named)
        self._named = named
        loss = first.objective.loss

        def value(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> Any:
            with first.plan.autocast:
                words = {"input_ids": x, "use_cache": False}
                logits = functional_call(self._template, parameters, (), words).logits
            return loss(logits.float(), y)

        self._gradients = vmap(grad_and_value(value))
        if compiled:
            self._gradients = torch.compile(self._gradients, dynamic=False)

    def _make_optimizer(self, named: list[dict[str, Any]]) -> torch.optim.AdamW:
        """AdamW works number by number, so it needs not know that there are several models; only
        which tensors are matrices must be asked of the single ones."""
        settings = self.trainers[0].stage.training
        matrices = [name for name, p in named[0].items() if p.ndim >= 2]
        others = [name for name, p in named[0].items() if p.ndim < 2]
        groups = [
            {"params": [self._stacked[n] for n in matrices], "weight_decay": settings.weight_decay},
            {"params": [self._stacked[n] for n in others], "weight_decay": 0.0},
        ]
        betas = (settings.beta1, settings.beta2)
        made = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, fused=True)
        for name, tensor in self._stacked.items():
            states: list[dict[str, torch.Tensor]] = [
                trainer.optimizer.state.get(one[name], {})
                for trainer, one in zip(self.trainers, named, strict=True)
            ]
            if all(states):  # resumed
                made.state[tensor] = {
                    "step": states[0]["step"].clone(),
                    "exp_avg": torch.stack([state["exp_avg"] for state in states]),
                    "exp_avg_sq": torch.stack([state["exp_avg_sq"] for state in states]),
                }
        return made

    def step(self, index: int) -> None:
        """One optimizer step of every seed, each on its own batch number `index`."""
        first = self.trainers[0]
        settings = first.stage.training
        set_learning_rate(self._optimizer, learning_rate(settings, index))
        length = current_length(settings, index, first.stage.length)
        batches = [
            first.split.batch(one.stage.seed, index, settings.batch, slice(None), length)
            for one in self.trainers
        ]
        tokens = torch.stack([batch.tokens for batch in batches])  # [seeds, B, T]
        targets = torch.stack([batch.targets for batch in batches])
        gradients, losses = self._gradients(self._stacked, tokens, targets)
        if settings.clip:
            _clip(gradients, settings.clip)
        for name, tensor in self._stacked.items():
            # the fused kernel reads memory in order, whatever the strides say
            tensor.grad = gradients[name].contiguous()
        self._optimizer.step()
        for tensor in self._stacked.values():
            tensor.grad = None
        for trainer, loss in zip(self.trainers, losses.detach().unbind(), strict=True):
            trainer._unread.append((index + 1, loss))  # `read_losses` looks at them

    def share(self) -> None:
        """Let every trainer see its part of the moments, as a checkpoint needs it."""
        for number, (trainer, one) in enumerate(zip(self.trainers, self._named, strict=True)):
            for name, parameter in one.items():
                state = self._optimizer.state[self._stacked[name]]
                trainer.optimizer.state[parameter] = {
                    "step": state["step"],
                    "exp_avg": state["exp_avg"][number],
                    "exp_avg_sq": state["exp_avg_sq"][number],
                }


def _clip(gradients: dict[str, torch.Tensor], most: float) -> None:
    """Seed by seed what `clip_grad_norm_` does to one model."""
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    scale = (most / (norms + 1e-6)).clamp(max=1.0)  # [seeds]
    for gradient in gradients.values():
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))


def train_together(
    recipes: Sequence[Recipe], runs: Sequence[Run], until: int | None, stop: Callable[[], bool]
) -> int:
    """Train runs that differ only in their seed, as `train` would one by one; the step reached.

    All must stand at the same step. Stops behind step `until`, or when asked to, with a checkpoint.
    """
    for recipe in recipes:
        reason = why_not(recipe)
        if reason is not None:
            raise StatetraceError(f"runs cannot be trained together: {reason}")
    with join(recipes[0].training.device) as world, ExitStack() as locks:
        for run in runs:
            locks.enter_context(run.lock())
        first = setup.make_plan(recipes[0], world)
        plans = [replace(first, recipe=one, stage=one.stages[0]) for one in recipes]
        found = [checkpoint.newest(run, lambda words: None) for run in runs]
        steps = {at[0] if at else 0 for at in found}
        if len(steps) > 1:
            raise StatetraceError(
                f"runs at steps {', '.join(map(str, sorted(steps)))} cannot be trained together; "
                "train them alone until they stand at the same"
            )
        start, last = steps.pop(), plans[0].stage.training.steps
        end = last if until is None else min(until, last)
        if start >= end:
            return start
        trainers = [
            _trainer(plan, run, at) for plan, run, at in zip(plans, runs, found, strict=True)
        ]
        with _books(plans, runs, trainers, start) as books:
            stack = Stack(trainers, compiled=setup.wants_compile(first))
            return _steps(stack, books, start, end, stop)


def _trainer(plan: Plan, run: Run, at: tuple[int, Any] | None) -> Trainer:
    if at is None:
        return Trainer(plan, run, setup.make_model(plan))
    trainer = Trainer(plan, run, load_checkpoint(at[1]))
    trainer.resume(at[1])
    return trainer


@contextmanager
def _books(
    plans: Sequence[Plan], runs: Sequence[Run], trainers: Sequence[Trainer], start: int
) -> Iterator[list[Book]]:
    books = [Book(plan, run, Quiet()) for plan, run in zip(plans, runs, strict=True)]
    ended = "stopped"
    try:
        for book, trainer in zip(books, trainers, strict=True):
            book.enter(trainer, start)
        yield books
    except BaseException as error:
        ended = f"{type(error).__name__}: {error}"[:500]
        raise
    finally:
        for book in books:
            book.close(ended)


def _steps(
    stack: Stack, books: Sequence[Book], start: int, end: int, stop: Callable[[], bool]
) -> int:
    """The loop of `training.loop`, for all at once."""
    pairs = list(zip(stack.trainers, books, strict=True))
    stage = stack.trainers[0].stage
    steps = stage.training.steps
    if start == 0:
        for trainer, book in pairs:
            book.evaluation(0, trainer.evaluate(0))
    for index in range(start, end):
        stack.step(index)
        done = index + 1
        halt = done == end or stop()
        log = done % stage.evaluation.log_every == 0 or done == steps
        evaluate = done % stage.evaluation.evaluate_every == 0 or done == steps
        save = done % stage.checkpoint.checkpoint_every == 0 or done == steps or halt
        if not (log or evaluate or save):
            continue
        stack.share()
        for trainer, book in pairs:
            latest = trainer.read_losses()
            if log:
                book.training(done, latest)
            if evaluate:
                book.evaluation(done, trainer.evaluate(done))
            if save:
                trainer.save(done)
        if halt:
            return done
    return end
