"""Several seeds of a small model as one batched program: parameters stacked, one step for all.

A model of width 64 keeps a processor busy with calling small operations rather than with doing
them; sixteen of them in one call cost little more than one. Every seed has its own solo trainer,
whose parameters and moments are views of the stacked ones, so logs, evaluations and checkpoints are
those of a solo run, and each run can be resumed alone.

Cost: memory for all seeds at once; evaluations are made one seed after the other.
Caveat: sums are taken in another order, so numbers equal those of a solo run up to rounding, not
bit for bit; over many steps such differences grow, as between two kinds of processor. Only one
stage of the state task, without an early end and on a CPU without dropout, can be stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.tasks.batch import Split
from statetrace.training import checkpoint, setup
from statetrace.training.book import Book
from statetrace.training.listener import Quiet
from statetrace.training.optimizer import current_length, learning_rate
from statetrace.training.parallel import join, pick_device
from statetrace.training.program import beyond
from statetrace.training.recipe import Recipe
from statetrace.training.setup import Plan
from statetrace.training.trainer import Trainer, whole_step

FAMILIES = ("gpt2", "pythia")
"""Those that the program knows."""


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
    if training.program is False:
        return "program is false, and a stack is nothing else"
    device = pick_device(training.device)
    dropout = spec.family.dropout if spec.dropout is None else spec.dropout
    if dropout and device.type != "cuda":
        return f"dropout is {dropout:g}, whose masks on a CPU are those of a single run"
    words, size = setup.make_task(recipe).vocabulary, spec.size
    return beyond(
        words.size,
        words.tokens(recipe.task.length),
        size.width // size.heads,
        spec.family.name == "pythia",
        device,
        setup.precision(recipe, device),
    )


class Stack:
    """Solo trainers whose parameters and moments are views of stacked ones."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers = list(trainers)
        self._step = whole_step(self.trainers)

    def step(self, index: int) -> None:
        """One optimizer step of every seed, each on its own batch number `index`."""
        first, shape = self.trainers[0], (len(self.trainers), -1)
        settings = first.stage.training
        length = current_length(settings, index, first.stage.length)
        seeds = [trainer.stage.seed for trainer in self.trainers]
        assert isinstance(first.split, Split)  # as `why_not` made sure
        batch = first.split.batches_of(seeds, index, settings.batch, length)
        tokens, targets = batch.tokens.unflatten(0, shape), batch.targets.unflatten(0, shape)
        losses = self._step(index, tokens, targets, learning_rate(settings, index), seeds)
        for trainer, loss in zip(self.trainers, losses.unbind(), strict=True):
            trainer.note(index, loss)


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
            stack = Stack(trainers)
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
