"""Batches made from (seed, index) alone: no loader state exists, so a resumed run sees exactly the
batches it would have seen. The sequences live on the device the model is on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from statetrace.tasks.sequences import Sequences
from statetrace.tasks.vocabulary import Vocabulary

UNSUPERVISED = -100
"""Target at positions that have no state to predict (cross entropy ignores it)."""


@dataclass(frozen=True)
class Batch:
    """What a model sees and should say, all [B, T]: T counts tokens, the start marker too.

    Attributes:
        tokens: token ids in.
        targets: token ids out, at the same position (nothing is shifted: the last action's state is
            supervised too); `UNSUPERVISED` where no state is to be predicted.
    """

    tokens: torch.Tensor
    targets: torch.Tensor

    @property
    def mask(self) -> torch.Tensor:
        """True where a state is to be predicted."""
        return self.targets != UNSUPERVISED

    @staticmethod
    def of(
        actions: torch.Tensor,
        states: torch.Tensor,
        vocabulary: Vocabulary,
        rows: torch.Tensor | None = None,
    ) -> Batch:
        """From element indices [B, T]; `rows` [B] number the sequences."""
        tokens = vocabulary.encode(actions, rows)
        targets = torch.full_like(tokens, UNSUPERVISED)
        targets[:, vocabulary.reads] = vocabulary.answers(states)
        return Batch(tokens, targets)


@dataclass(frozen=True)
class Split:
    """The sequences of one split on one device."""

    actions: torch.Tensor  # [n, T], uint8 or int16
    states: torch.Tensor  # [n, T]
    vocabulary: Vocabulary

    @staticmethod
    def of(sequences: Sequences, vocabulary: Vocabulary, device: torch.device | str) -> Split:
        def put(array: np.ndarray) -> torch.Tensor:
            small = array if array.dtype == np.uint8 else array.astype(np.int16)
            return torch.from_numpy(np.ascontiguousarray(small)).to(device)

        return Split(put(sequences.actions), put(sequences.states), vocabulary)

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def length(self) -> int:
        return int(self.actions.shape[1])

    def rows(self, rows: torch.Tensor | slice, length: int | None = None) -> Batch:
        """The batch of the given rows, cut to their first `length` actions."""
        actions, states = self.actions[rows][:, :length], self.states[rows][:, :length]
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self)), device=actions.device)
        return Batch.of(actions.long(), states.long(), self.vocabulary, rows)

    def batches(self, size: int, length: int | None = None) -> tuple[Batch, ...]:
        """All rows in their order, `size` at a time, cut to their first `length` actions."""
        starts = range(0, len(self), size)
        return tuple(self.rows(slice(start, start + size), length) for start in starts)

    def batch(
        self,
        seed: int,
        index: int,
        size: int,
        part: slice = slice(None),
        length: int | None = None,
    ) -> Batch:
        """Batch number `index` of the order `seed`; `part` picks one process's share of it."""
        return self.rows(self._put(batch_rows(len(self), size, seed, index)[part]), length)

    def batches_of(
        self, seeds: Sequence[int], index: int, size: int, length: int | None = None
    ) -> Batch:
        """Batch number `index` of each of several orders, one after the other: [S * B, T]."""
        rows = [batch_rows(len(self), size, seed, index) for seed in seeds]
        return self.rows(self._put(np.concatenate(rows)), length)

    def _put(self, rows: np.ndarray) -> torch.Tensor:
        """On the device, without waiting for what it is doing."""
        here, device = torch.from_numpy(rows), self.actions.device
        return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here


def batch_rows(n: int, size: int, seed: int, index: int) -> np.ndarray:
    """Rows of batch `index` in the endless stream of shuffled epochs over `n` rows."""
    start = index * size
    pieces = []
    while size > 0:
        epoch, offset = divmod(start, n)
        piece = _epoch(n, seed, epoch)[offset : offset + size]
        pieces.append(piece)
        start, size = start + len(piece), size - len(piece)
    return np.concatenate(pieces)


@lru_cache(maxsize=40)
def _epoch(n: int, seed: int, epoch: int) -> np.ndarray:
    order = np.random.default_rng([seed, epoch]).permutation(n)
    order.setflags(write=False)
    return order
