"""Next-token prediction on documents: over the group's elements, from topics or without structure,
or the bytes of a text.

Held-out documents come from a random stream that no training step of any stage uses.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from statetrace.config.checks import SEEDS
from statetrace.config.stages import MOST_STAGES, Stage
from statetrace.errors import StatetraceError
from statetrace.tasks.batch import Batch
from statetrace.tasks.documents import Documents, Draw
from statetrace.tasks.sequences import element_dtype
from statetrace.tasks.text import BYTES, read_bytes, windows
from statetrace.tasks.topics import CONCENTRATION, MIXTURE, TOPICS, TopicModel
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.objectives.objective import ROWS, Objective, Source

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan

HELD_OUT = MOST_STAGES * SEEDS
"""Added to a seed: larger than the seed of any stage."""


def topic(plan: TrainingPlan, stage: Stage) -> Objective:
    """Documents from a topic model: the paper's tables, one that is written out, or one drawn with
    the data seed."""
    settings, group = stage.settings, plan.task.group
    mixture = MIXTURE if settings.mixture is None else settings.mixture
    if settings.table is not None:
        make = TopicModel.written if " " in settings.table else TopicModel.paper
        model = make(settings.table, group, mixture)
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
    sizes = [min(ROWS, sequences - start) for start in range(0, sequences, ROWS)]
    return tuple(source.batch(HELD_OUT + seed, i, size) for i, size in enumerate(sizes))


def _next_token(plan: TrainingPlan, stage: Stage, draw: Draw) -> Objective:
    source = Documents(draw, stage.length, plan.task.vocabulary, plan.world.device)
    return Objective(
        source=source,
        vocabulary=plan.task.vocabulary,
        name="next token",
        held_out=held_out(source, stage.seed, stage.evaluation.evaluate_sequences),
        fingerprint=plan.task.vocabulary.fingerprint,
    )


def text(plan: TrainingPlan, stage: Stage) -> Objective:
    """Next-byte prediction on pieces of a file, as long as the stage's sequences: a "pretrained"
    start that needs no download.

    Bytes are not actions, so this stage has its own vocabulary (256 bytes and the start marker),
    and the state cannot be evaluated in it. The next stage keeps blocks, norms and positions and
    gets a new embedding and head, drawn with the mean and covariance of the old rows, so that the
    blocks read vectors of a familiar size in which no token has a meaning yet. Weights from a hub
    or a folder are adapted in the same way, except that their new rows start almost equal.
    """
    if stage.settings.file is None:
        raise StatetraceError("objective 'text' needs a file, such as file = \"book.txt\"")
    if stage.last:
        raise StatetraceError(
            "objective 'text' cannot be the last stage, because its model has no tokens of the "
            "task; add a state stage after it, if only of one step"
        )
    parts = read_bytes(stage.settings.file, stage.length)
    vocabulary = Vocabulary.plain(BYTES, plan.task.vocabulary.marker is not None)
    training, rest = (
        Documents(partial(windows, part), stage.length, vocabulary, plan.world.device)
        for part in parts
    )
    return Objective(
        source=training,
        vocabulary=vocabulary,
        name="next byte",
        tracks_state=False,
        fingerprint=hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest(),
        held_out=held_out(rest, stage.seed, stage.evaluation.evaluate_sequences),
    )
