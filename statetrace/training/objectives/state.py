"""The state task: predict s_t after each action, optionally with an auxiliary classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statetrace.config.stages import Stage, StageSettings
from statetrace.errors import StatetraceError
from statetrace.tasks.word_problem import WordProblem
from statetrace.training.auxiliary import ACTION, AuxiliaryTask
from statetrace.training.objectives.objective import Objective

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan


def state(plan: TrainingPlan, stage: Stage) -> Objective:
    """On the first `stage.length` actions of the training sequences."""
    return Objective(
        source=plan.training_split,
        vocabulary=plan.task.vocabulary,
        name="state",
        auxiliary=_auxiliary(plan.task, stage.settings),
        fingerprint=plan.task.vocabulary.fingerprint,
    )


def _auxiliary(task: WordProblem, settings: StageSettings) -> AuxiliaryTask | None:
    if settings.auxiliary is None:
        return None
    name, *rest = (part.strip() for part in settings.auxiliary.split(","))
    if rest not in ([], [ACTION]):
        raise StatetraceError(
            f"auxiliary '{settings.auxiliary}' is not valid; use the name of a quotient, such as "
            f"parity, alone or with the action: 'parity,{ACTION}'"
        )
    (quotient,) = task.quotients((name,))
    weight = 1.0 if settings.auxiliary_weight is None else settings.auxiliary_weight
    layer = settings.auxiliary_layer
    return AuxiliaryTask(task.group, quotient, bool(rest), layer, weight, task.vocabulary)
