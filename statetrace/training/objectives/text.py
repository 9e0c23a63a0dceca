"""Next-byte prediction on a text file: a "pretrained" start without any download.

Bytes are no actions, so this stage has a vocabulary of its own (256 bytes and the start marker) and
the state cannot be measured in it. What is handed on are the blocks, norms and positions; the next
stage gets a new embedding and a new head, drawn with the mean and covariance of the old rows, so
that the blocks meet vectors of the size they know and no token means anything yet. This is the road
that weights from a hub or a folder take as well, but there the new rows start all but equal.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.tasks.documents import Documents
from statetrace.tasks.text import BYTES, ByteText, windows
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.objectives.documents import held_out
from statetrace.training.objectives.objective import Objective

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan


def text(plan: TrainingPlan, stage: Stage, device: torch.device | str) -> Objective:
    """Documents are pieces of the file, as long as the stage's sequences."""
    if stage.wanted.file is None:
        raise StatetraceError("no file was given; objective 'text' needs one: file = \"book.txt\"")
    if stage.last:
        raise StatetraceError(
            "objective 'text' cannot be the last stage, as its model would not know the task's "
            "tokens; let a state stage follow, if only of one step"
        )
    found = ByteText.read(stage.wanted.file, stage.length)
    vocabulary = Vocabulary.plain(BYTES, plan.task.vocabulary.marker is not None)
    training, rest = (
        Documents(partial(windows, data), stage.length, vocabulary, device)
        for data in (found.training, found.held_out)
    )
    return Objective(
        source=training,
        vocabulary=vocabulary,
        what="next byte",
        tracks_state=False,
        fingerprint=found.digest,
        held_out=held_out(rest, stage.seed, stage.evaluation.evaluate_sequences),
    )
