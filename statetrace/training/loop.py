"""The training loop: exact, resumable bit for bit, the same on one process or several.

Nothing random is carried from step to step: batches come from (seed, step), dropout masks from
(seed, step, process). A resumed run therefore repeats what an uninterrupted one would have done.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.tasks.batch import Split
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem
from statetrace.training import checkpoint, setup
from statetrace.training.evaluate import accuracy, loss, predict
from statetrace.training.optimizer import (
    adamw,
    export,
    learning_rate,
    restore,
    set_learning_rate,
    whole,
)
from statetrace.training.parallel import World, join, local_gradients, spread
from statetrace.training.recipe import Recipe
from statetrace.training.writers import Writer, writers


class Listener(Protocol):
    """Hears of a run as it goes; the command line draws it."""

    def started(self, step: int, steps: int) -> None: ...

    def stepped(self, step: int, train_loss: float) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def told(self, message: str) -> None: ...

    def wants_stop(self) -> bool:
        """Asked after every step; True ends the run there, with a checkpoint."""
        ...


class Quiet:
    """A listener that does nothing."""

    def started(self, step: int, steps: int) -> None: ...

    def stepped(self, step: int, train_loss: float) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def told(self, message: str) -> None: ...

    def wants_stop(self) -> bool:
        return False


@dataclass(frozen=True)
class Outcome:
    """How a run ended: at which step, and whether that was its last."""

    step: int
    finished: bool
    checkpoint: Path | None


@dataclass
class Trainer:
    """What the steps of one run share."""

    recipe: Recipe
    run: Run
    task: WordProblem
    world: World
    model: Any
    module: nn.Module
    optimizer: torch.optim.Optimizer
    split: Split
    analysis: Split
    listener: Listener
    writers: list[Writer]
    autocast: AbstractContextManager[Any]
    unread: list[tuple[int, torch.Tensor]] = dataclasses.field(default_factory=list)

    def step(self, index: int) -> None:
        """One optimizer step on batch number `index`."""
        settings, world = self.recipe.training, self.world
        torch.manual_seed((settings.seed << 40) ^ (index << 8) ^ world.rank)
        set_learning_rate(self.optimizer, learning_rate(settings, index))
        batch = self.split.batch(settings.seed, index, settings.batch, world.part(settings.batch))
        parts = zip(
            batch.tokens.chunk(settings.accumulate),
            batch.targets.chunk(settings.accumulate),
            strict=True,
        )
        total = torch.zeros((), device=world.device)
        for number, (tokens, targets) in enumerate(parts, start=1):
            last = number == settings.accumulate
            with nullcontext() if last else local_gradients(self.module):
                with self.autocast:
                    logits = predict(self.module, tokens)
                part = loss(logits, targets) / settings.accumulate
                part.backward()
            total += part.detach()
        if settings.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.unread.append((index + 1, total))

    def read_losses(self) -> float:
        """The latest training loss. Reading waits for the GPU, so it is done now and then; the
        losses in between are checked together here, and a non-finite one ends the run."""
        losses = torch.stack([value for _, value in self.unread])
        if self.world.size > 1:
            torch.distributed.all_reduce(losses)
            losses /= self.world.size
        values = losses.tolist()
        for (step, _), value in zip(self.unread, values, strict=True):
            if not torch.isfinite(torch.tensor(value)):
                raise NonFiniteLoss(self.run, step, value, self.recipe.training.learning_rate)
        self.unread.clear()
        return float(values[-1])

    def evaluate(self, step: int) -> None:
        wanted = self.recipe.evaluation
        measured = accuracy(
            self.module,
            self.task,
            self.analysis,
            setup.make_quotients(self.recipe, self.task),
            wanted.evaluate_sequences,
            autocast=self.autocast,
        )
        record = measured.record(step)
        self.record(record)
        self.listener.evaluated(record)

    def record(self, record: dict[str, Any]) -> None:
        if self.world.leads:
            self.run.append(record)
            for writer in self.writers:
                writer.write(record)

    def save(self, step: int) -> None:
        """Write a checkpoint: all processes gather, the leading one writes."""
        names = list(self.model.named_parameters())
        snapshot = checkpoint.Snapshot(
            step=step,
            weights={name: whole(tensor) for name, tensor in self.model.state_dict().items()},
            moments=export(self.optimizer, names),
            state={
                "schedule": {"kind": self.recipe.training.schedule, "step": step},
                "random": {"seed": self.recipe.training.seed, "step": step},
                "recipe": self.recipe.to_dict(),
            },
        )
        if self.world.leads:
            checkpoint.save(self.run, self.model, snapshot, self.recipe.checkpoint.keep)
        self.world.wait()


class NonFiniteLoss(StatetraceError):
    """The loss became NaN or infinite."""

    def __init__(self, run: Run, step: int, value: float, rate: float) -> None:
        kept = [folder for _, folder in run.checkpoints()]
        where = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint existed yet"
        super().__init__(
            f"the loss became {value} at step {step}, so the run was stopped; {where}; "
            f"a smaller learning_rate than {rate:g}, or some warmup, usually helps"
        )


def train(recipe: Recipe, run: Run, listener: Listener, resume: bool = False) -> Outcome:
    """Train as the recipe says, into a run folder.

    A folder that already holds a run is only touched with `resume`, which continues it from its
    newest undamaged checkpoint, and is harmless on a new or a finished run.
    """
    with join(recipe.training.device) as world:
        if not world.leads:
            return _train(recipe, run, listener, world)
        with run.lock():
            _open(recipe, run, resume)
            return _train(recipe, run, listener, world)


def _open(recipe: Recipe, run: Run, resume: bool) -> None:
    if not run.exists():
        return
    if not resume:
        raise StatetraceError(
            f"'{run.path}' already holds a run; --resume continues it, "
            "another --out starts a new one"
        )
    changed = recipe.differences(Recipe.of(run.info["recipe"]))
    if changed:
        raise StatetraceError(
            f"'{run.path}' was begun with other settings: asked for {'; '.join(changed)}; "
            "resume without these, or start a new run"
        )


def _train(recipe: Recipe, run: Run, listener: Listener, world: World) -> Outcome:
    settings = recipe.training
    world.part(settings.batch // settings.accumulate)  # refuse an uneven share before any work
    setup.be_deterministic(recipe, world.device)
    task = setup.make_task(recipe)
    training, analysis = setup.make_splits(recipe, task)
    found = checkpoint.newest(run, listener.told if world.leads else lambda _: None)
    start = found[0] if found else 0
    model: Any = load_checkpoint(found[1]) if found else setup.make_model(recipe, task)
    trainer = assemble(recipe, run, listener, world, task, model, (training, analysis))
    if found:
        restore(trainer.optimizer, model.named_parameters(), checkpoint.moments(found[1]))
    if start >= settings.steps:
        listener.told(f"'{run.path}' is finished: all {settings.steps} steps are done")
        return Outcome(start, True, run.checkpoint(start))
    session = _begin(trainer, start)
    try:
        outcome = _steps(trainer, start)
        session["ended"] = "finished" if outcome.finished else "stopped"
    except BaseException as error:
        session["ended"] = f"{type(error).__name__}: {error}"[:500]
        raise
    finally:
        _end(trainer, session)
    return outcome


def assemble(
    recipe: Recipe,
    run: Run,
    listener: Listener,
    world: World,
    task: WordProblem,
    model: Any,
    splits: tuple[Sequences, Sequences],
) -> Trainer:
    """Put model and data where they belong and make a trainer of them."""
    settings = recipe.training
    model.to(world.device).train()
    if setup.wants_compile(recipe, world.device, world.size > 1 and settings.parallel == "fsdp"):
        model.compile()
    module = spread(model, world, settings.parallel)
    training, analysis = splits
    return Trainer(
        recipe=recipe,
        run=run,
        task=task,
        world=world,
        model=model,
        module=module,
        optimizer=adamw(model, settings),
        split=task.split(training, world.device),
        analysis=task.split(analysis[: recipe.evaluation.evaluate_sequences], world.device),
        listener=listener,
        writers=[],
        autocast=setup.autocast(recipe, world.device),
    )


def _steps(trainer: Trainer, start: int) -> Outcome:
    recipe, listener, world = trainer.recipe, trainer.listener, trainer.world
    steps = recipe.training.steps
    listener.started(start, steps)
    if start == 0:
        trainer.evaluate(0)
    for index in range(start, steps):
        trainer.step(index)
        done = index + 1
        stop = world.size == 1 and listener.wants_stop()
        log = done % recipe.evaluation.log_every == 0
        evaluate = done % recipe.evaluation.evaluate_every == 0 or done == steps
        save = done % recipe.checkpoint.checkpoint_every == 0 or done == steps or stop
        if log or evaluate or save:
            latest = trainer.read_losses()
            listener.stepped(done, latest)
        if log or done == steps:
            trainer.record(
                {
                    "kind": "training",
                    "step": done,
                    "loss": latest,
                    "learning_rate": learning_rate(recipe.training, index),
                }
            )
        if evaluate:
            trainer.evaluate(done)
        if save:
            trainer.save(done)
        if stop and done < steps:
            return Outcome(done, False, trainer.run.checkpoint(done))
    return Outcome(steps, True, trainer.run.checkpoint(steps))


def _begin(trainer: Trainer, start: int) -> dict[str, Any]:
    """Note in run.json that work begins, and clear metrics the resumed run will write again."""
    session = {"started": _now(), "from_step": start, "clock": time.perf_counter()}
    if trainer.world.leads:
        info = trainer.run.info if trainer.run.exists() else {"format": 1, "sessions": []}
        info |= {
            "recipe": trainer.recipe.to_dict(),
            "parameters": sum(p.numel() for p in trainer.model.parameters()),
            "training_sequences": len(trainer.split),
            **setup.surroundings(trainer.world.device, trainer.world.size),
        }
        trainer.run.write_info(info)
        trainer.run.forget_after(start if start else -1)
        trainer.writers = writers(trainer.run, trainer.recipe)
    return session


def _end(trainer: Trainer, session: dict[str, Any]) -> None:
    if not trainer.world.leads:
        return
    for writer in trainer.writers:
        writer.close()
    session["seconds"] = round(time.perf_counter() - session.pop("clock"), 3)
    session["finished"] = _now()
    info = trainer.run.info
    trainer.run.write_info(info | {"sessions": [*info["sessions"], session]})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
