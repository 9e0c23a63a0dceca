"""What a stage can teach, by name. Adding an objective is a file here and a line in OBJECTIVES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from statetrace.errors import StatetraceError
from statetrace.training.objectives.documents import control, topic
from statetrace.training.objectives.objective import Objective, Source, measure
from statetrace.training.objectives.state import state
from statetrace.training.stages import INHERITED, Stage

if TYPE_CHECKING:
    from statetrace.training.setup import Plan

__all__ = ["OBJECTIVES", "Objective", "Source", "make_objective", "measure"]


@dataclass(frozen=True)
class Kind:
    """How an objective is made, and which settings of a stage are its own."""

    make: Callable[[Plan, Stage, torch.device | str], Objective]
    settings: tuple[str, ...] = ()


OBJECTIVES: dict[str, Kind] = {
    "state": Kind(state),
    "topic": Kind(topic, ("table", "topics", "mixture", "concentration")),
    "control": Kind(control),
}


def make_objective(plan: Plan, stage: Stage, device: torch.device | str = "cpu") -> Objective:
    """The objective of a stage, or one sentence on why there is none."""
    try:
        return _make(plan, stage, device)
    except StatetraceError as error:
        if stage.label is None:
            raise
        raise StatetraceError(f"stage {stage.name}: {error}") from None


def _make(plan: Plan, stage: Stage, device: torch.device | str) -> Objective:
    name = stage.wanted.objective
    kind = OBJECTIVES.get(name)
    if kind is None:
        raise StatetraceError(f"objective '{name}' is unknown; use one of {', '.join(OBJECTIVES)}")
    for setting in stage.wanted.given().keys() - INHERITED - {"objective", *kind.settings}:
        owners = [other for other, one in OBJECTIVES.items() if setting in one.settings]
        raise StatetraceError(
            f"{setting} means nothing to objective '{name}'; it belongs to {', '.join(owners)}"
        )
    return kind.make(plan, stage, device)
