"""The state task: say s_t after each action, as the whole of statetrace is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from statetrace.training.objectives.objective import Objective
from statetrace.training.stages import Stage

if TYPE_CHECKING:
    from statetrace.training.setup import Plan


def state(plan: Plan, stage: Stage, device: torch.device | str) -> Objective:
    """On the first `stage.length` actions of the training sequences."""
    source = plan.task.split(plan.splits[0], device)
    return Objective(source=source, vocabulary=plan.task.vocabulary, what="state")
