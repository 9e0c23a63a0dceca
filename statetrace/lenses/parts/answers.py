"""The answers of a model (its predicted state after every action), and checks that lenses share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.models import anatomy
from statetrace.models.stack import ModelStack
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

KNOWN = 0.5
"""The share of states, beyond guessing, below which a result has a note about low accuracy."""


def device_of(model: Any) -> torch.device:
    return torch.device(next(model.parameters()).device)


def check_fits(model: Any, task: WordProblem, length: int) -> None:
    """Refuse tokens without an embedding and lengths beyond the positions of the model."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    if task.vocabulary.size > vocabulary:
        name, order = task.group.name, task.group.order
        if order > vocabulary:
            raise StatetraceError(
                f"the model has {vocabulary} tokens, but {name} has {order} elements; "
                "check the group (--group)"
            )
        raise StatetraceError(
            f"the model has {vocabulary} tokens, but the ids of {name} go up to "
            f"{task.vocabulary.size - 1}; use ids below {vocabulary} for its elements (--tokens) "
            "and its start marker (--start-token)"
        )
    positions = anatomy(model).max_length
    needed = task.vocabulary.tokens(length)
    if positions is not None and needed > positions:
        most = task.vocabulary.fitting(positions)
        raise StatetraceError(
            f"length {length} needs {needed} positions, but the model has {positions}; "
            f"use length {most} at most"
        )


def low_accuracy(accuracy: float, order: int, lengths: str, consequence: str = "") -> list[str]:
    """A note if the model knows less than half of the states, and its consequence.

    The share of states that it knows is its accuracy corrected for guessing. (Knowing only parity
    gives 20% on S3.)
    """
    chance = 1 / order
    if order == 1 or (accuracy - chance) / (1 - chance) >= KNOWN:
        return []
    return [f"low accuracy: {accuracy:.1%} {lengths} (chance {chance:.1%}){consequence}"]


def too_few(drawn: int, requested: int, length: int) -> list[str]:
    """A note if fewer sequences were drawn than requested."""
    if drawn == requested:
        return []
    return [f"{drawn} sequences of length {length} instead of {requested}: no more were held out"]


def answers(
    model: Any, task: WordProblem, sequences: Sequences, batch: int | None = None
) -> np.ndarray:
    """Predicted states [n, length]."""
    return stacked_answers(ModelStack([model]), task, sequences, batch)[0]


BATCH = {"cpu": 64}
"""Sequences per forward pass; on a CPU few enough that activations stay in the cache."""


def stacked_answers(
    stack: ModelStack, task: WordProblem, sequences: Sequences, batch: int | None = None
) -> np.ndarray:
    """Predicted states [S, n, length]."""
    check_fits(stack.first, task, sequences.length)
    batch = batch or BATCH.get(device_of(stack.first).type, 512)

    def states(tokens: torch.Tensor) -> np.ndarray:
        def compute(model: Any) -> torch.Tensor:
            return task.read_out(stack.predict(model, tokens)).argmax(-1)

        return stack.each(compute, tokens.numel()).cpu().numpy()

    batches = token_batches(stack.first, task, sequences, batch)
    return np.concatenate([states(tokens) for tokens in batches], axis=1)


def token_batches(
    model: Any, task: WordProblem, sequences: Sequences, batch: int
) -> Iterator[torch.Tensor]:
    """Their tokens on the model's device, `batch` sequences at a time."""
    for start in range(0, len(sequences), batch):
        yield task.encode(sequences.actions[start : start + batch], device_of(model))
