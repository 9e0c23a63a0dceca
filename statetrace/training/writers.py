"""Optional copies of metrics.jsonl in TensorBoard and Weights & Biases. Nothing depends on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.runs import Run


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


@dataclass(frozen=True)
class Writer:
    """Receives every record of metrics.jsonl; `log` takes its scalars and its step."""

    log: Callable[[dict[str, float], int], None]
    close: Callable[[], None]
    first_steps: dict[str | None, int]

    def write(self, record: dict[str, Any]) -> None:
        self.log(scalars(record), record["step"] + self.first_steps[record.get("stage")])


def writers(run: Run, recipe: Recipe) -> list[Writer]:
    """Those the recipe names."""
    chosen = []
    if recipe.evaluation.tensorboard:
        chosen.append(_tensorboard(run))
    if recipe.evaluation.wandb:
        chosen.append(_weights_and_biases(run, recipe, recipe.evaluation.wandb))
    return [Writer(log, close, first_steps(recipe)) for log, close in chosen]


def _tensorboard(run: Run) -> tuple[Any, Any]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise StatetraceError(
            "tensorboard is not installed; pip install 'statetrace[tensorboard]'"
        ) from None
    writer = SummaryWriter(str(run.path / "tensorboard"))

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return log, writer.close


def _weights_and_biases(run: Run, recipe: Recipe, project: str) -> tuple[Any, Any]:
    try:
        import wandb
    except ImportError:
        raise StatetraceError(
            f"wandb '{project}' needs the package wandb, which is not installed; "
            "pip install 'statetrace[wandb]'"
        ) from None
    config, folder = recipe.to_dict(), str(run.path)
    session = wandb.init(
        project=project, name=run.path.name, dir=folder, config=config, resume="allow"
    )
    return session.log, session.finish
