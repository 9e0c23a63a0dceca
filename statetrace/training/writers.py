"""Optional mirrors of metrics.jsonl for those who watch runs elsewhere. Nothing depends on them."""

from __future__ import annotations

import re
from typing import Any, Protocol

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.runs import Run


class Writer(Protocol):
    """Receives every record that goes into metrics.jsonl."""

    def write(self, record: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


def scalars(record: dict[str, Any]) -> dict[str, float]:
    """The single numbers of a record, with names such as `evaluation/accuracy/parity`, in a run of
    several stages `1-topic/evaluation/accuracy/parity`."""
    kind = "/".join([record["stage"], record["kind"]] if "stage" in record else [record["kind"]])
    found = {}
    for key, value in record.items():
        if isinstance(value, float):
            found[f"{kind}/{key}"] = value
        elif key == "accuracy":
            found |= {f"{kind}/accuracy/{what}": share for what, share in value.items()}
    return {re.sub(r"[^\w./-]+", "-", name): value for name, value in found.items()}


def steps_before(recipe: Recipe) -> dict[str | None, int]:
    """Stage -> steps the stages before it may take: a writer's steps must not go back to 0."""
    before: dict[str | None, int] = {}
    total = 0
    for stage in recipe.stages:
        before[stage.label] = total
        total += stage.training.steps
    return before


class TensorBoard:
    def __init__(self, run: Run, recipe: Recipe) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise StatetraceError(
                "tensorboard was asked for but is not installed; "
                "pip install 'statetrace[tensorboard]'"
            ) from None
        self._writer = SummaryWriter(str(run.path / "tensorboard"))
        self._before = steps_before(recipe)

    def write(self, record: dict[str, Any]) -> None:
        step = record["step"] + self._before[record.get("stage")]
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
                f"wandb '{project}' was asked for, but wandb is not installed; "
                "pip install 'statetrace[wandb]'"
            ) from None
        self._run = wandb.init(
            project=project,
            name=run.path.name,
            dir=str(run.path),
            config=recipe.to_dict(),
            resume="allow",
        )
        self._before = steps_before(recipe)

    def write(self, record: dict[str, Any]) -> None:
        step = record["step"] + self._before[record.get("stage")]
        self._run.log(scalars(record), step=step)

    def close(self) -> None:
        self._run.finish()


def writers(run: Run, recipe: Recipe) -> list[Writer]:
    """Those the recipe asks for."""
    wanted: list[Writer] = []
    if recipe.evaluation.tensorboard:
        wanted.append(TensorBoard(run, recipe))
    if recipe.evaluation.wandb:
        wanted.append(WeightsAndBiases(run, recipe, recipe.evaluation.wandb))
    return wanted
