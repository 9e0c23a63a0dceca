"""The objectives of stages, by name. A built-in one is a function here and a line in BUILTIN.

Every quotient of the group is an objective too, under its own name: parity, or S3 of S4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from statetrace import plugins
from statetrace.config.stages import INHERITED, Stage
from statetrace.errors import StatetraceError
from statetrace.training.objectives.documents import control, text, topic
from statetrace.training.objectives.objective import Objective, Source, evaluate_objective
from statetrace.training.objectives.states import quotient, state

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan

__all__ = [
    "OBJECTIVES",
    "Objective",
    "ObjectiveKind",
    "Source",
    "evaluate_objective",
    "make_objective",
    "objective_kind",
]


@dataclass(frozen=True)
class ObjectiveKind:
    """Attributes:
    build: creates the objective of a stage.
    settings: the settings of a stage that belong to this objective.
    vocabulary: what the tokens mean; successive stages with the same one share embedding and head.
    """

    build: Callable[[TrainingPlan, Stage], Objective]
    settings: tuple[str, ...] = ()
    vocabulary: str = "elements"


BUILTIN = {
    "state": ObjectiveKind(state, ("auxiliary", "auxiliary_layer", "auxiliary_weight")),
    "topic": ObjectiveKind(topic, ("table", "topics", "mixture", "concentration")),
    "control": ObjectiveKind(control),
    "text": ObjectiveKind(text, ("file",), vocabulary="bytes"),
}

OBJECTIVES: Mapping[str, ObjectiveKind] = plugins.Registry("objective", BUILTIN)
"""The built-in objectives, then registered ones."""

QUOTIENT = ObjectiveKind(quotient)


def is_builtin(name: str) -> bool:
    return name in BUILTIN


def check_plugin(name: str, thing: Any) -> ObjectiveKind:
    """An ObjectiveKind, or the function that builds the objective."""
    kind = ObjectiveKind(thing) if callable(thing) else thing
    if not isinstance(kind, ObjectiveKind):
        raise StatetraceError(
            f"it is {type(thing).__name__!r}, not an ObjectiveKind or a function that builds one"
        )
    return replace(kind, build=plugins.guarded("objective", name, kind.build))


def objective_kind(name: str) -> ObjectiveKind:
    """The named objective; any other name is a quotient's, which `make_objective` checks."""
    return OBJECTIVES.get(name, QUOTIENT)


def make_objective(plan: TrainingPlan, stage: Stage) -> Objective:
    """The objective of a stage, on the plan's device."""
    try:
        _check(plan, stage)
        return objective_kind(stage.settings.objective).build(plan, stage)
    except StatetraceError as error:
        if stage.label is None:
            raise
        raise StatetraceError(f"stage {stage.name}: {error}") from None


def _check(plan: TrainingPlan, stage: Stage) -> None:
    """Refuse unknown objectives and settings that belong to another one."""
    name = stage.settings.objective
    kind = objective_kind(name)
    if kind is QUOTIENT:
        try:
            plan.task.quotients((name,))
        except StatetraceError as error:
            raise StatetraceError(
                f"objective '{name}' is unknown; use one of {', '.join(OBJECTIVES)}, or a quotient "
                f"({error})"
            ) from None
    if stage.settings.shuffle and stage.number == 0:
        raise StatetraceError("shuffle has no effect on the first stage; leave it out")
    for setting in (
        stage.settings.explicit().keys() - INHERITED - {"objective", "shuffle", *kind.settings}
    ):
        owners = [other for other, k in OBJECTIVES.items() if setting in k.settings]
        raise StatetraceError(
            f"{setting} has no effect on objective '{name}'; it belongs to {', '.join(owners)}"
        )
