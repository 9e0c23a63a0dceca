"""The state task: say s_t after each action, as the whole of statetrace is about; and, if the stage
wants it, what an auxiliary classifier is to read from an early layer meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from statetrace.config.stages import Stage, StageSettings
from statetrace.errors import StatetraceError
from statetrace.tasks.word_problem import WordProblem
from statetrace.training.auxiliary import ACTION, Auxiliary
from statetrace.training.objectives.objective import Objective

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan


def state(plan: TrainingPlan, stage: Stage, device: torch.device | str) -> Objective:
    """On the first `stage.length` actions of the training sequences."""
    source = plan.task.split(plan.splits[0], device)
    return Objective(
        source=source,
        vocabulary=plan.task.vocabulary,
        what="state",
        auxiliary=_auxiliary(plan.task, stage.wanted),
        fingerprint=plan.task.vocabulary.fingerprint,
    )


def _auxiliary(task: WordProblem, wanted: StageSettings) -> Auxiliary | None:
    if wanted.auxiliary is None:
        return None
    name, *rest = (word.strip() for word in wanted.auxiliary.split(","))
    if rest not in ([], [ACTION]):
        raise StatetraceError(
            f"auxiliary '{wanted.auxiliary}' cannot be read; use the name of a quotient, such as "
            f"parity, alone or with the action: 'parity,{ACTION}'"
        )
    (of,) = task.quotients((name,))
    weight = 1.0 if wanted.auxiliary_weight is None else wanted.auxiliary_weight
    return Auxiliary(task.group, of, bool(rest), wanted.auxiliary_layer, weight, task.vocabulary)
