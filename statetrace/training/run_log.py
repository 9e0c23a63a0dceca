"""Writes run.json and metrics.jsonl during training; only the leading process writes.

Clock times go into run.json alone, so that equal runs have equal metrics.jsonl files. Records name
their stage if the recipe has more than one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from statetrace.groups import store_group
from statetrace.runs import LOG, Run, now
from statetrace.training import setup
from statetrace.training.callback import Callback
from statetrace.training.optimizer import learning_rate
from statetrace.training.setup import TrainingPlan
from statetrace.training.trainer import Evaluation, Trainer
from statetrace.training.writers import Writer, writers


def restore(run: Run, checkpoint: Path, callback: Callback) -> bool:
    """Let run.json and metrics.jsonl be what they were when a checkpoint was written, with a
    message for each that is damaged; returns whether the checkpoint has the log."""
    damage = run.info_damage()
    if damage is not None:
        run.write_info(run.info)
        callback.on_message(f"{run.path / 'run.json'} was damaged ({damage}); restored it")
    if run.restore_log(checkpoint):
        callback.on_message(f"{run.path / LOG} was damaged; restored it")
    return (checkpoint / LOG).is_file()


class RunLog:
    """The log of one session, which may pass through several stages. Its time is counted from
    `began` (of time.perf_counter), so that it includes generating the data."""

    def __init__(self, plan: TrainingPlan, run: Run, callback: Callback, began: float) -> None:
        self._plan, self._run, self._callback = plan, run, callback
        self.stage = plan.stage
        self._began = began
        self._session: dict[str, Any] | None = None
        self._writers: list[Writer] = []

    def start_stage(self, trainer: Trainer, start: int, folder: Path | None) -> None:
        """Prepare to continue a stage from step `start`, with the log as it was when the checkpoint
        in `folder` was written: the stage's own, or the last of the stage before. The log of a
        branch begins where it branches."""
        self.stage = stage = trainer.stage
        if not self._plan.world.leads:
            return
        kept = (
            folder is not None
            and folder.is_relative_to(self._run.path)
            and restore(self._run, folder, self._callback)
        )
        info: dict[str, Any] = self._run.info if self._run.exists() else {"format": 1}
        sessions = info.get("sessions", [])
        if self._session is None:
            self._writers = writers(self._run, self._plan.recipe)
            threads = torch.get_num_threads()
            self._session = {"started": now(), "from_step": start, "threads": threads}
            if stage.label is not None:
                self._session["from_stage"] = stage.label
            sessions = [*sessions, self._session]  # now: a killed process never closes its log
        store_group(self._run.path, self._plan.task.group)
        self._run.write_info(
            info
            | {
                "sessions": sessions,
                "recipe": self._plan.recipe.to_dict(),
                "parameters": sum(p.numel() for p in trainer.model.parameters()),
                "training_sequences": len(self._plan.training_split),
                **setup.environment(self._plan.world),
            }
        )
        if kept:
            return
        earlier = [other.name for other in self._plan.recipe.stages[: stage.number]]
        self._run.forget_after(start if start else -1, stage.label, earlier)

    def text(self) -> str:
        """The log so far."""
        return self._run.log_text() if self._plan.world.leads else ""

    def training(self, step: int, loss: float) -> None:
        rate = learning_rate(self.stage.training, step - 1)
        self._write({"kind": "training", "step": step, "loss": loss, "learning_rate": rate})

    def evaluation(self, evaluation: Evaluation) -> None:
        for record in evaluation.records:
            self._callback.on_evaluation(self._write(record))

    def _write(self, record: dict[str, Any]) -> dict[str, Any]:
        if self.stage.label is not None:
            record = record | {"stage": self.stage.label}
        if self._plan.world.leads:
            self._run.append(record)
            for writer in self._writers:
                writer.write(record)
        return record

    def close(self, ended: str) -> None:
        """End the session. One that never started leaves no trace; one that was killed has no
        end."""
        if self._session is None:
            return
        for writer in self._writers:
            writer.close()
        seconds = round(time.perf_counter() - self._began, 3)
        self._session |= {"ended": ended, "finished": now(), "seconds": seconds}
        info = self._run.info
        self._run.write_info(info | {"sessions": [*info["sessions"][:-1], self._session]})
