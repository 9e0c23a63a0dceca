"""Next-token prediction on documents over the group's elements: from topics, or without structure.

Held-out documents come from a random stream that no training step of any stage uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from statetrace.config.checks import SEEDS
from statetrace.config.stages import MOST_STAGES, Stage
from statetrace.tasks.batch import Batch
from statetrace.tasks.documents import Documents, Draw
from statetrace.tasks.sequences import element_dtype
from statetrace.tasks.topics import CONCENTRATION, MIXTURE, TOPICS, TopicModel
from statetrace.training.objectives.objective import ROWS, Objective, Source

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan

HELD_OUT = MOST_STAGES * SEEDS
"""Added to a seed: larger than the seed of any stage."""


def topic(plan: TrainingPlan, stage: Stage) -> Objective:
    """Documents from a topic model: the paper's tables, or one drawn with the data seed."""
    settings, group = stage.settings, plan.task.group
    mixture = MIXTURE if settings.mixture is None else settings.mixture
    if settings.table is not None:
        model = TopicModel.paper(settings.table, group, mixture)
    else:
        topics = TOPICS if settings.topics is None else settings.topics
        concentration = CONCENTRATION if settings.concentration is None else settings.concentration
        seed = plan.recipe.task.data_seed
        model = TopicModel.drawn(group.order, seed, topics, concentration, mixture)
    return _next_token(plan, stage, model.draw)


def control(plan: TrainingPlan, stage: Stage) -> Objective:
    """Documents of uniformly drawn actions, in which nothing can be predicted."""
    task = plan.task
    alphabet = np.asarray(range(task.group.order) if task.actions is None else task.actions)
    alphabet = alphabet.astype(element_dtype(task.group.order))

    def draw(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
        return alphabet[rng.integers(0, len(alphabet), size=(n, length))]

    return _next_token(plan, stage, draw)


def held_out(source: Source, seed: int, sequences: int) -> tuple[Batch, ...]:
    """`sequences` documents that are never trained on, in batches."""
    starts = range(0, sequences, ROWS)
    return tuple(
        source.batch(HELD_OUT + seed, index, min(ROWS, sequences - start))
        for index, start in enumerate(starts)
    )


def _next_token(plan: TrainingPlan, stage: Stage, draw: Draw) -> Objective:
    source = Documents(draw, stage.length, plan.task.vocabulary, plan.world.device)
    return Objective(
        source=source,
        vocabulary=plan.task.vocabulary,
        name="next token",
        held_out=held_out(source, stage.seed, stage.evaluation.evaluate_sequences),
        fingerprint=plan.task.vocabulary.fingerprint,
    )
