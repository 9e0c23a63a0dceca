"""The objective of a stage: its batches, its loss, and its evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from statetrace.models.predict import evaluating, predict
from statetrace.tasks.batch import Batch
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.auxiliary import AuxiliaryTask
from statetrace.training.evaluate import loss

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


def same_token(predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return predictions == targets


@dataclass(frozen=True)
class Objective:
    """Attributes:
    source: its training batches.
    vocabulary: the tokens of its batches.
    name: of what is predicted, for logs.
    loss: (logits [B, T, vocab], targets [B, T]) -> mean over the supervised positions.
    correct: (most likely tokens [B, T], targets [B, T]) -> which predictions count as correct.
    held_out: batches to evaluate on, never trained on; empty for the state task, which every
        evaluation of a run covers anyway.
    tracks_state: whether states can be evaluated with this vocabulary.
    auxiliary: what a classifier predicts from an early layer, if there is one.
    fingerprint: of data outside the run, which could change before it is resumed.
    """

    source: Source
    vocabulary: Vocabulary
    name: str
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = loss
    correct: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = same_token
    held_out: tuple[Batch, ...] = ()
    tracks_state: bool = True
    auxiliary: AuxiliaryTask | None = None
    fingerprint: str | None = None


def evaluate_objective(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    autocast: AbstractContextManager[Any] | None = None,
) -> tuple[float, float]:
    """(loss, accuracy) over the supervised positions of some batches."""
    supervised, correct, total = 0, 0.0, 0.0
    with evaluating(model):
        for batch in batches:
            with autocast or nullcontext():
                logits = predict(model, batch.tokens)
            count = int(batch.mask.sum())
            hits = objective.correct(logits.argmax(-1), batch.targets) & batch.mask
            total += float(objective.loss(logits, batch.targets)) * count
            correct += int(hits.sum())
            supervised += count
    return total / supervised, correct / supervised
