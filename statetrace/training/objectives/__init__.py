"""What a stage can teach, by name. Adding an objective is a file here and a line in OBJECTIVES.

Every quotient of the group is an objective too, under its own name: parity, or S3 of S4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from statetrace.config.stages import INHERITED, Stage
from statetrace.errors import StatetraceError
from statetrace.training.objectives.documents import control, topic
from statetrace.training.objectives.objective import Objective, Source, measure
from statetrace.training.objectives.quotient import quotient
from statetrace.training.objectives.state import state
from statetrace.training.objectives.text import text

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan

__all__ = ["OBJECTIVES", "Objective", "Source", "kind", "make_objective", "measure"]


@dataclass(frozen=True)
class Kind:
    """How an objective is made, which settings of a stage are its own, and whose tokens a model
    reads in it: stages with the same words hand on their embedding and head too."""

    make: Callable[[TrainingPlan, Stage, torch.device | str], Objective]
    settings: tuple[str, ...] = ()
    words: str = "elements"


OBJECTIVES: dict[str, Kind] = {
    "state": Kind(state, ("auxiliary", "auxiliary_layer", "auxiliary_weight")),
    "topic": Kind(topic, ("table", "topics", "mixture", "concentration")),
    "control": Kind(control),
    "text": Kind(text, ("file",), words="bytes"),
}

QUOTIENT = Kind(quotient)


def kind(name: str) -> Kind:
    """The named objective; any other name is taken for a quotient's, which `make` checks."""
    return OBJECTIVES.get(name, QUOTIENT)


def make_objective(
    plan: TrainingPlan, stage: Stage, device: torch.device | str = "cpu"
) -> Objective:
    """The objective of a stage, or one sentence on why there is none."""
    try:
        return _make(plan, stage, device)
    except StatetraceError as error:
        if stage.label is None:
            raise
        raise StatetraceError(f"stage {stage.name}: {error}") from None


def _make(plan: TrainingPlan, stage: Stage, device: torch.device | str) -> Objective:
    name = stage.wanted.objective
    made = kind(name)
    if made is QUOTIENT:
        _check_quotient(plan, name)
    for setting in stage.wanted.given().keys() - INHERITED - {"objective", *made.settings}:
        owners = [other for other, one in OBJECTIVES.items() if setting in one.settings]
        raise StatetraceError(
            f"{setting} means nothing to objective '{name}'; it belongs to {', '.join(owners)}"
        )
    return made.make(plan, stage, device)


def _check_quotient(plan: TrainingPlan, name: str) -> None:
    try:
        plan.task.quotients((name,))
    except StatetraceError as error:
        raise StatetraceError(
            f"objective '{name}' is unknown; use one of {', '.join(OBJECTIVES)}, or a quotient "
            f"({error})"
        ) from None
