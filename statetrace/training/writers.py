"""Optional copies of metrics.jsonl in TensorBoard and Weights & Biases. Nothing depends on them."""

from __future__ import annotations

import re
from typing import Any, Protocol

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.runs import Run


class Writer(Protocol):
    """Receives every record of metrics.jsonl."""

    def write(self, record: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


def scalars(record: dict[str, Any]) -> dict[str, float]:
    """The scalars of a record, with names such as `evaluation/accuracy/parity`, in a run of several
    stages `1-topic/evaluation/accuracy/parity`."""
    kind = f"{record['stage']}/{record['kind']}" if "stage" in record else record["kind"]
    values = {}
    for key, value in record.items():
        if isinstance(value, float):
            values[f"{kind}/{key}"] = value
        elif key == "accuracy":
            values |= {f"{kind}/accuracy/{what}": share for what, share in value.items()}
    return {re.sub(r"[^\w./-]+", "-", name): value for name, value in values.items()}


def first_steps(recipe: Recipe) -> dict[str | None, int]:
    """Stage -> its first step, counted over all stages: a writer's steps must not decrease."""
    lengths = [stage.training.steps for stage in recipe.stages]
    return {stage.label: sum(lengths[: stage.number]) for stage in recipe.stages}


class TensorBoard:
    def __init__(self, run: Run, recipe: Recipe) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise StatetraceError(
                "tensorboard is not installed; pip install 'statetrace[tensorboard]'"
            ) from None
        self._writer = SummaryWriter(str(run.path / "tensorboard"))
        self._first_steps = first_steps(recipe)

    def write(self, record: dict[str, Any]) -> None:
        step = record["step"] + self._first_steps[record.get("stage")]
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    def __init__(self, run: Run, recipe: Recipe, project: str) -> None:
        try:
            import wandb
        except ImportError:
            raise StatetraceError(
                f"wandb '{project}' needs the package wandb, which is not installed; "
                "pip install 'statetrace[wandb]'"
            ) from None
        self._run = wandb.init(
            project=project,
            name=run.path.name,
            dir=str(run.path),
            config=recipe.to_dict(),
            resume="allow",
        )
        self._first_steps = first_steps(recipe)

    def write(self, record: dict[str, Any]) -> None:
        step = record["step"] + self._first_steps[record.get("stage")]
        self._run.log(scalars(record), step=step)

    def close(self) -> None:
        self._run.finish()


def writers(run: Run, recipe: Recipe) -> list[Writer]:
    """Those the recipe names."""
    chosen: list[Writer] = []
    if recipe.evaluation.tensorboard:
        chosen.append(TensorBoard(run, recipe))
    if recipe.evaluation.wandb:
        chosen.append(WeightsAndBiases(run, recipe, recipe.evaluation.wandb))
    return chosen
