"""Stages: the [[stage]] tables of a recipe, and the settings each resolves to.

Purpose: a regime of the paper (section 5.3, appendix H) is a chain of stages that pass on the
weights and nothing else. Every stage starts with a new optimizer, a new step count and its own
schedule, and ends after its steps or by its own stopping rule. A recipe without stages is one stage
of the state task.

Cost: none; needs no torch.
Caveat: a stage lists only how it differs from [task], [training], [evaluation] and [checkpoint]; an
option of the command line applies to every stage and overrides them all.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from statetrace.config.checks import SEEDS, at_least, need
from statetrace.config.settings import (
    CheckpointSettings,
    EvaluationSettings,
    TaskSettings,
    TrainingSettings,
    setting,
)
from statetrace.errors import StatetraceError

MOST_STAGES = 16
"""The number of the stage is combined with seed and step into one 64-bit seed."""


def default_layer(layers: int) -> int:
    """The block after which a classifier is attached by default: a quarter of the depth."""
    return -(-layers // 4)


@dataclass(frozen=True)
class StageSettings:
    """One stage. Settings that are left out are taken from the recipe's sections."""

    objective: str = setting(
        "state", "What is trained: state, topic, control, text, or a quotient such as parity."
    )
    length: int | None = setting(None, "Tokens per sequence, at most the task's length.")

    shuffle: bool | None = setting(
        None,
        "Start from the previous stage's weights with the entries of each tensor in random order: "
        "a control that keeps only their sizes.",
    )

    table: str | None = setting(
        None,
        "topic: a table of the paper, paper-1 or paper-2 (S3 only), or one written out: a row per "
        "topic, separated by semicolons, with a weight for each element, as in '1 0 0 1 1 0'.",
    )
    topics: int | None = setting(None, "topic: number of topics (default: 4), without a table.")
    mixture: float | None = setting(
        None, "topic: Dirichlet parameter of a document's mixture of topics (default: 0.3)."
    )
    concentration: float | None = setting(
        None, "topic: Dirichlet parameter of a topic's tokens (default: 0.1), without a table."
    )

    file: str | None = setting(None, "text: the text file, read as bytes.")

    auxiliary: str | None = setting(
        None,
        "state: target of a linear classifier on an early layer during training: parity, another "
        "quotient, or 'parity,action' for both jointly.",
    )
    auxiliary_layer: int | None = setting(
        None,
        "state: the block, from 1, after which the classifier is attached (default: a quarter of "
        "the depth).",
    )
    auxiliary_weight: float | None = setting(
        None, "state: weight of the classifier's loss relative to the task's (default: 1)."
    )

    steps: int | None = setting(None, "As in [training], like all that follow.")
    batch: int | None = setting(None, "Sequences per step.")
    accumulate: int | None = setting(None, "Parts that each batch is split into.")
    learning_rate: float | None = setting(None, "Peak learning rate.")
    schedule: str | None = setting(None, "Decay of the learning rate.")
    warmup: int | None = setting(None, "Steps of linear learning-rate warm-up.")
    grow: float | None = setting(None, "Share of the steps over which sequences grow.")
    weight_decay: float | None = setting(None, "Decoupled weight decay.")
    beta1: float | None = setting(None, "AdamW's first-moment decay.")
    beta2: float | None = setting(None, "AdamW's second-moment decay.")
    clip: float | None = setting(None, "Maximum gradient norm.")
    stop_at: float | None = setting(None, "End early at this accuracy.")
    stop_loss: float | None = setting(None, "End early at this loss.")
    stop_learned: float | None = setting(None, "End early at this accuracy at every length.")
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
                f"{name} {getattr(self, name)} has no effect without auxiliary; set that too",
            )
        need(
            self.table is None or (self.topics is None and self.concentration is None),
            f"table '{self.table}' has its own topics; leave out topics and concentration",
        )
        for name in ("mixture", "concentration"):
            value = getattr(self, name)
            need(
                value is None or 0 < value < float("inf"),
                f"{name} {value} is not a Dirichlet parameter; use a positive number, such as 0.3",
            )

    def explicit(self) -> dict[str, Any]:
        """The settings it lists itself, by name."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def without(self, names: set[str]) -> StageSettings:
        """The same stage with some settings left to the recipe's sections."""
        rest = {name: value for name, value in self.explicit().items() if name not in names}
        return StageSettings(**rest)


def _shared(section: type) -> set[str]:
    own = {f.name for f in dataclasses.fields(StageSettings)}
    return own & {f.name for f in dataclasses.fields(section)}


INHERITED = frozenset(
    name
    for section in (TaskSettings, TrainingSettings, EvaluationSettings, CheckpointSettings)
    for name in _shared(section)
)
"""Settings that a stage takes from a section unless it lists them itself."""


@dataclass(frozen=True)
class Stage:
    """One stage of a recipe with everything filled in.

    Attributes:
        number: its place in the chain, from 0; `total` is the length of the chain.
        settings: its own table.
        length: tokens per sequence, without the start marker.
        training, evaluation, checkpoint: the recipe's sections as they apply to this stage.
    """

    number: int
    total: int
    settings: StageSettings
    length: int
    training: TrainingSettings
    evaluation: EvaluationSettings
    checkpoint: CheckpointSettings

    @property
    def name(self) -> str:
        """Such as '1-topic': unique in its recipe, and usable as a folder name."""
        return f"{self.number + 1}-{self.settings.objective}"

    @property
    def label(self) -> str | None:
        """The name, if the recipe has several stages."""
        return self.name if self.total > 1 else None

    @property
    def last(self) -> bool:
        return self.number == self.total - 1

    def prolonged(self, steps: int) -> Stage:
        """The same stage with more steps."""
        return dataclasses.replace(self, training=dataclasses.replace(self.training, steps=steps))

    @property
    def seed(self) -> int:
        """The run's seed in the first stage; later stages must not repeat its random numbers."""
        return self.training.seed + self.number * SEEDS


def resolve(
    stages: tuple[StageSettings, ...],
    task: TaskSettings,
    training: TrainingSettings,
    evaluation: EvaluationSettings,
    checkpoint: CheckpointSettings,
) -> tuple[Stage, ...]:
    """The stages of a recipe; one of the state task if it lists none."""
    chain = stages or (StageSettings(),)
    need(
        len(chain) <= MOST_STAGES,
        f"{len(chain)} stages are too many; use at most {MOST_STAGES}",
    )
    need(
        len(chain) == 1 or training.most_steps is None,
        f"most_steps {training.most_steps} has no effect with several stages; leave it out",
    )
    resolved = []
    for number, settings in enumerate(chain):
        explicit = settings.explicit()
        length = explicit.get("length", task.length)
        try:
            need(
                length <= task.length,
                f"length {length} is more than the task's {task.length}; use at most that",
            )
            sections = [
                dataclasses.replace(section, **_pick(explicit, type(section)))
                for section in (training, evaluation, checkpoint)
            ]
        except StatetraceError as error:
            raise StatetraceError(f"stage {number + 1} ({settings.objective}): {error}") from None
        resolved.append(
            Stage(number, len(chain), settings, length, *sections)  # type: ignore[arg-type]
        )
    return tuple(resolved)


def _pick(explicit: dict[str, Any], section: type) -> dict[str, Any]:
    return {name: value for name, value in explicit.items() if name in _shared(section)}
