"""What one stage teaches: where its batches come from, what is asked, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from statetrace.tasks.batch import Batch
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.auxiliary import AuxiliaryTask
from statetrace.training.evaluate import loss, predict

ROWS = 512
"""Sequences per held-out batch."""


class Source(Protocol):
    """Training batches as a function of (seed, index)."""

    def batch(
        self, seed: int, index: int, size: int, part: slice = ..., length: int | None = ...
    ) -> Batch: ...

    def batches_of(
        self, seeds: Sequence[int], index: int, size: int, length: int | None = ...
    ) -> Batch: ...


def same_token(answers: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return answers == targets


@dataclass(frozen=True)
class Objective:
    """Attributes:
    source: its training batches.
    vocabulary: the tokens of its batches.
    what: what is right or wrong, for logs and people.
    loss: (logits [B, T, vocab], targets [B, T]) -> mean over the supervised positions.
    right: (most likely tokens [B, T], targets [B, T]) -> which count as right.
    held_out: batches that are never trained on, to evaluate it on; empty for the state task,
        which every evaluation of a run measures anyway.
    tracks_state: whether a model of this vocabulary can be asked for states at all.
    auxiliary: what is read from an early layer besides.
    fingerprint: of data that lie outside of the run and could change while it rests.
    """

    source: Source
    vocabulary: Vocabulary
    what: str
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = loss
    right: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = same_token
    held_out: tuple[Batch, ...] = ()
    tracks_state: bool = True
    auxiliary: AuxiliaryTask | None = None
    fingerprint: str | None = None


@torch.no_grad()
def evaluate_objective(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    autocast: AbstractContextManager[Any] | None = None,
) -> tuple[float, float]:
    """(loss, share of right answers) over the supervised positions of some batches."""
    asked, right, total = 0, 0.0, 0.0
    was_training = model.training
    model.eval()
    try:
        for batch in batches:
            with autocast or nullcontext():
                logits = predict(model, batch.tokens)
            count = int(batch.mask.sum())
            hits = objective.right(logits.argmax(-1), batch.targets) & batch.mask
            total += float(objective.loss(logits, batch.targets)) * count
            right += int(hits.sum())
            asked += count
    finally:
        model.train(was_training)
    return total / asked, right / asked
