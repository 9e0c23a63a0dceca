"""Next-byte prediction on a text file: a "pretrained" start that needs no download.

Bytes are not actions, so this stage has its own vocabulary (256 bytes and the start marker), and
the state cannot be evaluated in it. The next stage keeps blocks, norms and positions and gets a new
embedding and head, drawn with the mean and covariance of the old rows, so that the blocks read
vectors of a familiar size in which no token has a meaning yet. Weights from a hub or a folder are
adapted in the same way, except that their new rows start almost equal.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.tasks.documents import Documents
from statetrace.tasks.text import BYTES, ByteText, windows
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.objectives.documents import held_out
from statetrace.training.objectives.objective import Objective

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan


def text(plan: TrainingPlan, stage: Stage) -> Objective:
    """Documents are pieces of the file, as long as the stage's sequences."""
    if stage.settings.file is None:
        raise StatetraceError("objective 'text' needs a file, such as file = \"book.txt\"")
    if stage.last:
        raise StatetraceError(
            "objective 'text' cannot be the last stage, because its model has no tokens of the "
            "task; add a state stage after it, if only of one step"
        )
    data = ByteText.read(stage.settings.file, stage.length)
    vocabulary = Vocabulary.plain(BYTES, plan.task.vocabulary.marker is not None)
    training, rest = (
        Documents(partial(windows, part), stage.length, vocabulary, plan.world.device)
        for part in (data.training, data.held_out)
    )
    return Objective(
        source=training,
        vocabulary=vocabulary,
        name="next byte",
        tracks_state=False,
        fingerprint=data.digest,
        held_out=held_out(rest, stage.seed, stage.evaluation.evaluate_sequences),
    )
