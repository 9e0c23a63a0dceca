"""A run from its first step to its last: resumable bit for bit, on one process or several."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.training import checkpoint, setup
from statetrace.training.listener import Listener, Quiet
from statetrace.training.optimizer import learning_rate, restore
from statetrace.training.parallel import join
from statetrace.training.recipe import Recipe
from statetrace.training.setup import Plan
from statetrace.training.trainer import Trainer
from statetrace.training.writers import Writer, writers


@dataclass(frozen=True)
class Outcome:
    """How a run ended: at which step, and whether that was its last."""

    step: int
    finished: bool
    checkpoint: Path


def train(recipe: Recipe, run: Run, listener: Listener, resume: bool = False) -> Outcome:
    """Train as the recipe says, into a run folder.

    A folder that already holds a run is only touched with `resume`, which continues it from its
    newest undamaged checkpoint, and is harmless on a new or a finished run. Started by torchrun,
    every process calls this; the leading one writes and speaks.
    """
    with join(recipe.training.device) as world:
        plan = setup.make_plan(recipe, world)  # refuses nonsense before anything is written
        if not world.leads:
            return _train(plan, run, Quiet())
        if run.exists():
            _check_resumable(recipe, run, resume)
        elif run.checkpoints():
            raise StatetraceError(
                f"'{run.path}' holds checkpoints but no run.json that says what they are; "
                "choose another --out"
            )
        with run.lock():
            return _train(plan, run, listener)


def _check_resumable(recipe: Recipe, run: Run, resume: bool) -> None:
    if not resume:
        raise StatetraceError(
            f"'{run.path}' already holds a run; --resume continues it, "
            "another --out starts a new one"
        )
    changed = recipe.differences(Recipe.of(run.recipe))
    if changed:
        raise StatetraceError(
            f"'{run.path}' was begun with other settings: asked for {'; '.join(changed)}; "
            "resume without these, or start a new run"
        )


def _train(plan: Plan, run: Run, listener: Listener) -> Outcome:
    found = checkpoint.newest(run, listener.told)
    start, folder = found or (0, None)
    steps = plan.recipe.training.steps
    if start >= steps:
        listener.told(f"'{run.path}' is finished: all {steps:,} steps are done")
        return Outcome(start, True, run.checkpoint(start))
    trainer = Trainer(plan, run, load_checkpoint(folder) if folder else setup.make_model(plan))
    if folder:
        saved = checkpoint.moments(folder)
        restore(trainer.optimizer, trainer.model.named_parameters(), saved)
    book = Book(trainer, listener, start)
    try:
        outcome = _steps(trainer, book, listener, start)
    except BaseException as error:
        book.close(f"{type(error).__name__}: {error}"[:500])
        raise
    book.close("finished" if outcome.finished else "stopped")
    return outcome


def _steps(trainer: Trainer, book: Book, listener: Listener, start: int) -> Outcome:
    recipe = trainer.plan.recipe
    steps = recipe.training.steps
    listener.started(start, steps)
    if start == 0:
        book.evaluation(0)
    for index in range(start, steps):
        trainer.step(index)
        done = index + 1
        stop = trainer.plan.world.size == 1 and listener.wants_stop()
        log = done % recipe.evaluation.log_every == 0 or done == steps
        evaluate = done % recipe.evaluation.evaluate_every == 0 or done == steps
        save = done % recipe.checkpoint.checkpoint_every == 0 or done == steps or stop
        if log or evaluate or save:
            latest = trainer.read_losses()
            listener.stepped(done, latest)
        if log:
            book.training(done, latest)
        if evaluate:
            book.evaluation(done)
        if save:
            trainer.save(done)
        if stop and done < steps:
            return Outcome(done, False, trainer.run.checkpoint(done))
    return Outcome(steps, True, trainer.run.checkpoint(steps))


class Book:
    """Keeps run.json and metrics.jsonl while a run is worked on; only the leading process writes.

    Clock times go into run.json alone, so that metrics.jsonl is the same for equal runs.
    """

    def __init__(self, trainer: Trainer, listener: Listener, start: int) -> None:
        self._trainer, self._listener = trainer, listener
        self._plan, self._run = trainer.plan, trainer.run
        self._began = time.perf_counter()
        self._session: dict[str, Any] = {"started": _now(), "from_step": start}
        self._writers: list[Writer] = []
        if not self._plan.world.leads:
            return
        self._writers = writers(self._run, self._plan.recipe)
        info = self._run.info if self._run.exists() else {"format": 1, "sessions": []}
        self._run.write_info(
            info
            | {
                "recipe": self._plan.recipe.to_dict(),
                "parameters": sum(p.numel() for p in trainer.model.parameters()),
                "training_sequences": len(trainer.split),
                **setup.surroundings(self._plan.world),
            }
        )
        self._run.forget_after(start if start else -1)

    def training(self, step: int, loss: float) -> None:
        rate = learning_rate(self._plan.recipe.training, step - 1)
        self._write({"kind": "training", "step": step, "loss": loss, "learning_rate": rate})

    def evaluation(self, step: int) -> None:
        record = self._trainer.evaluate(step)
        self._write(record)
        self._listener.evaluated(record)

    def _write(self, record: dict[str, Any]) -> None:
        if self._plan.world.leads:
            self._run.append(record)
            for writer in self._writers:
                writer.write(record)

    def close(self, ended: str) -> None:
        if not self._plan.world.leads:
            return
        for writer in self._writers:
            writer.close()
        seconds = round(time.perf_counter() - self._began, 3)
        self._session |= {"ended": ended, "finished": _now(), "seconds": seconds}
        info = self._run.info
        self._run.write_info(info | {"sessions": [*info["sessions"], self._session]})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
