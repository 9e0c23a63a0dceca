"""Stages: what a recipe's [[stage]] tables may say, and what each comes to.

Purpose: a regime of the paper (section 5.3, appendix H) is a chain of stages that hand on the
weights and nothing else. Every stage begins with a fresh optimizer, a fresh step count and its own
schedule, and ends after its steps or by its own stopping rule. A recipe without stages is one stage
of the state task.

Cost: none; needs no torch.
Caveat: a stage only says in which ways it differs from [task], [training], [evaluation] and
[checkpoint]; an option of the command line is meant for every stage and wins over all of them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from statetrace.config.settings import (
    SEEDS,
    CheckpointSettings,
    EvaluationSettings,
    TaskSettings,
    TrainingSettings,
    at_least,
    need,
    setting,
)
from statetrace.errors import StatetraceError

MOST_STAGES = 16
"""The number of the stage is mixed with seed and step into one 64-bit seed."""


def usual_layer(layers: int) -> int:
    """The block that a classifier reads where no other is named: a quarter of the depth."""
    return -(-layers // 4)


@dataclass(frozen=True)
class StageSettings:
    """One stage. All but the objective may be left out; those of [training] are then taken."""

    objective: str = setting(
        "state", "What is learned: state, topic, control, text, or a quotient such as parity."
    )
    length: int | None = setting(None, "Tokens per sequence, at most the task's length.")

    table: str | None = setting(
        None, "topic: tokens per topic as printed in the paper, paper-1 or paper-2 (S3 alone)."
    )
    topics: int | None = setting(None, "topic: how many topics (default 4), without a table.")
    mixture: float | None = setting(
        None, "topic: Dirichlet parameter of a document's mixture of topics (default 0.3)."
    )
    concentration: float | None = setting(
        None, "topic: Dirichlet parameter of a topic's tokens (default 0.1), without a table."
    )

    file: str | None = setting(None, "text: the file whose bytes are read; nothing else is needed.")

    auxiliary: str | None = setting(
        None,
        "state: what a linear classifier reads from an early layer while the model is trained: "
        "parity, another quotient, or 'parity,action' for both at once.",
    )
    auxiliary_layer: int | None = setting(
        None, "state: the block, counted from 1, behind which it reads (default: a quarter of all)."
    )
    auxiliary_weight: float | None = setting(
        None, "state: weight of the classifier's loss beside the task's (default 1)."
    )

    steps: int | None = setting(None, "As in [training], like all that follow.")
    batch: int | None = setting(None, "Sequences per step.")
    accumulate: int | None = setting(None, "Parts a batch is computed in.")
    learning_rate: float | None = setting(None, "Peak learning rate.")
    schedule: str | None = setting(None, "Decay of the learning rate.")
    warmup: int | None = setting(None, "Steps over which the learning rate first rises.")
    grow: float | None = setting(None, "Share of the steps over which sequences grow.")
    weight_decay: float | None = setting(None, "Decoupled weight decay.")
    beta1: float | None = setting(None, "AdamW's first-moment decay.")
    beta2: float | None = setting(None, "AdamW's second-moment decay.")
    clip: float | None = setting(None, "Largest gradient norm.")
    stop_at: float | None = setting(None, "End at this share of right answers.")
    stop_loss: float | None = setting(None, "End at this loss.")
    evaluate_every: int | None = setting(None, "Steps between evaluations.")
    log_every: int | None = setting(None, "Steps between records of the training loss.")
    checkpoint_every: int | None = setting(None, "Steps between checkpoints.")

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)
        at_least("topics", self.topics, 1)
        at_least("auxiliary_layer", self.auxiliary_layer, 1)
        at_least("auxiliary_weight", self.auxiliary_weight, 0)
        for name in ("auxiliary_layer", "auxiliary_weight"):
            need(
                self.auxiliary is not None or getattr(self, name) is None,
                f"{name} {getattr(self, name)} is for an auxiliary loss; say which with auxiliary",
            )
        need(
            self.table is None or (self.topics is None and self.concentration is None),
            f"table '{self.table}' has its own topics; leave out topics and concentration",
        )
        for name in ("mixture", "concentration"):
            value = getattr(self, name)
            need(
                value is None or 0 < value < float("inf"),
                f"{name} {value} is no Dirichlet parameter; use a positive number, such as 0.3",
            )

    def given(self) -> dict[str, Any]:
        """What it says itself, by name."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def without(self, names: set[str]) -> StageSettings:
        """The same stage with some settings left to the recipe's sections."""
        kept = {name: value for name, value in self.given().items() if name not in names}
        return StageSettings(**kept)


def _shared(kind: type) -> set[str]:
    mine = {f.name for f in dataclasses.fields(StageSettings)}
    return mine & {f.name for f in dataclasses.fields(kind)}


INHERITED = frozenset(
    name
    for kind in (TaskSettings, TrainingSettings, EvaluationSettings, CheckpointSettings)
    for name in _shared(kind)
)
"""Settings that a stage takes from a section where it says nothing itself."""


@dataclass(frozen=True)
class Stage:
    """One stage of a recipe with everything filled in.

    Attributes:
        number: its place in the chain, from 0; `of` is the length of the chain.
        wanted: what its table says.
        length: tokens per sequence, without the start marker.
        training, evaluation, checkpoint: the recipe's sections as they hold in this stage.
    """

    number: int
    of: int
    wanted: StageSettings
    length: int
    training: TrainingSettings
    evaluation: EvaluationSettings
    checkpoint: CheckpointSettings

    @property
    def name(self) -> str:
        """Such as '1-topic': unique in its recipe, and fit for a folder."""
        return f"{self.number + 1}-{self.wanted.objective}"

    @property
    def label(self) -> str | None:
        """The name where there is something to tell apart."""
        return self.name if self.of > 1 else None

    @property
    def last(self) -> bool:
        return self.number == self.of - 1

    @property
    def seed(self) -> int:
        """The run's seed in a first stage; other stages must not see the same random numbers."""
        return self.training.seed + self.number * SEEDS


def resolve(
    stages: tuple[StageSettings, ...],
    task: TaskSettings,
    training: TrainingSettings,
    evaluation: EvaluationSettings,
    checkpoint: CheckpointSettings,
) -> tuple[Stage, ...]:
    """The stages of a recipe; one of the state task where it names none."""
    chain = stages or (StageSettings(),)
    need(
        len(chain) <= MOST_STAGES,
        f"{len(chain)} stages are too many; use at most {MOST_STAGES}",
    )
    made = []
    for number, wanted in enumerate(chain):
        given = wanted.given()
        length = given.get("length", task.length)
        try:
            need(
                length <= task.length,
                f"length {length} is more than the task's {task.length}; use at most that",
            )
            sections = [
                dataclasses.replace(section, **_pick(given, type(section)))
                for section in (training, evaluation, checkpoint)
            ]
        except StatetraceError as error:
            raise StatetraceError(f"stage {number + 1} ({wanted.objective}): {error}") from None
        made.append(Stage(number, len(chain), wanted, length, *sections))  # type: ignore[arg-type]
    return tuple(made)


def _pick(given: dict[str, Any], kind: type) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in _shared(kind)}
