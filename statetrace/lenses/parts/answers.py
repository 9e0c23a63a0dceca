"""What a model answers: its predicted state after every action, in batches that fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.models import anatomy
from statetrace.models.predict import predict
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

KNOWN = 0.5
"""Share of the answers a model must know, beyond guessing, to count as having learned the task."""


def device_of(model: Any) -> torch.device:
    return torch.device(next(model.parameters()).device)


def check_fits(model: Any, task: WordProblem, length: int) -> None:
    """Refuse tokens the model has no embedding for, and lengths it has no positions for."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    if task.vocabulary.size > vocabulary:
        raise StatetraceError(
            f"the model knows {vocabulary} tokens, but {task.group.name} uses token ids up to "
            f"{task.vocabulary.size - 1}; say which ids stand for the elements (--tokens), or "
            "leave out the start marker (--no-start-marker)"
        )
    positions = anatomy(model).max_length
    needed = task.vocabulary.tokens(length)
    if positions is not None and needed > positions:
        most = task.vocabulary.fitting(positions)
        raise StatetraceError(
            f"length {length} needs {needed} positions, but the model has {positions}; "
            f"ask for at most length {most}"
        )


def unlearned(accuracy: float, order: int, lengths: str) -> str | None:
    """A sentence if the model does not know the task, None if it does; the same for every lens.

    Guessing explains part of the right answers. What is left, as a share of what could be, is how
    often the model knows the state; below one half it is called unlearned. (Knowing parity alone
    gives 20% on S3.)
    """
    chance = 1 / order
    if order == 1 or (accuracy - chance) / (1 - chance) >= KNOWN:
        return None
    return (
        f"the model has not learned the task: {accuracy:.1%} of its answers {lengths} are right, "
        f"{chance:.1%} would be by chance"
    )


def answers(model: Any, task: WordProblem, sequences: Sequences, batch: int = 512) -> np.ndarray:
    """Predicted states [n, length]."""
    check_fits(model, task, sequences.length)
    with torch.no_grad():
        found = [
            task.read_out(predict(model, tokens)).argmax(-1).cpu().numpy()
            for tokens in _batches(model, task, sequences, batch)
        ]
    return np.concatenate(found)


def _batches(
    model: Any, task: WordProblem, sequences: Sequences, batch: int
) -> Iterator[torch.Tensor]:
    device = device_of(model)
    for start in range(0, len(sequences), batch):
        rows = np.ascontiguousarray(sequences.actions[start : start + batch]).astype(np.int64)
        yield task.encode(torch.from_numpy(rows).to(device))
