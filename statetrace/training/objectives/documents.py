"""Next-token prediction on documents over the group's elements: topics, or no structure at all.

Held-out documents come from a stream of random numbers that no step of any stage uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from statetrace.config.settings import SEEDS
from statetrace.config.stages import MOST_STAGES, Stage
from statetrace.tasks.batch import Batch
from statetrace.tasks.documents import Documents, Draw
from statetrace.tasks.sequences import element_dtype
from statetrace.tasks.topics import CONCENTRATION, MIXTURE, TOPICS, TopicModel
from statetrace.training.objectives.objective import ROWS, Objective, Source

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan

HELD_OUT = MOST_STAGES * SEEDS
"""Added to a seed: no stage of any run counts that far."""


def topic(plan: TrainingPlan, stage: Stage, device: torch.device | str) -> Objective:
    """Documents from a topic model: the paper's tables, or one drawn with the data seed."""
    wanted, of = stage.wanted, plan.task.group
    mixture = MIXTURE if wanted.mixture is None else wanted.mixture
    if wanted.table is not None:
        model = TopicModel.paper(wanted.table, of, mixture)
    else:
        topics = TOPICS if wanted.topics is None else wanted.topics
        concentration = CONCENTRATION if wanted.concentration is None else wanted.concentration
        seed = plan.recipe.task.data_seed
        model = TopicModel.drawn(of.order, seed, topics, concentration, mixture)
    return _next_token(plan, stage, device, model.draw)


def control(plan: TrainingPlan, stage: Stage, device: torch.device | str) -> Objective:
    """Documents without structure: actions drawn uniformly, so nothing can be predicted."""
    task = plan.task
    alphabet = np.asarray(range(task.group.order) if task.actions is None else task.actions)
    alphabet = alphabet.astype(element_dtype(task.group.order))

    def draw(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
        return alphabet[rng.integers(0, len(alphabet), size=(n, length))]

    return _next_token(plan, stage, device, draw)


def held_out(source: Source, seed: int, sequences: int) -> tuple[Batch, ...]:
    """`sequences` documents that are never trained on, in batches."""
    starts = range(0, sequences, ROWS)
    return tuple(
        source.batch(HELD_OUT + seed, index, min(ROWS, sequences - start))
        for index, start in enumerate(starts)
    )


def _next_token(
    plan: TrainingPlan, stage: Stage, device: torch.device | str, draw: Draw
) -> Objective:
    source = Documents(draw, stage.length, plan.task.vocabulary, device)
    return Objective(
        source=source,
        vocabulary=plan.task.vocabulary,
        what="next token",
        held_out=held_out(source, stage.seed, stage.evaluation.evaluate_sequences),
        fingerprint=plan.task.vocabulary.fingerprint,
    )
