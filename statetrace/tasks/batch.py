"""Batches as a function of (seed, index): there is no loader state, so a resumed run sees exactly
the batches it would have seen. The sequences live on the model's device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from statetrace.tasks.sequences import Sequences
from statetrace.tasks.vocabulary import Vocabulary

UNSUPERVISED = -100
"""Target at positions without a state to predict (cross entropy ignores it)."""


@dataclass(frozen=True)
class Batch:
    """Inputs and targets, both [B, T]: T counts tokens, including the start marker.

    Attributes:
        tokens: input token ids.
        targets: target token ids at the same positions (not shifted: the last action's state is
            supervised too); `UNSUPERVISED` where there is none.
    """

    tokens: torch.Tensor
    targets: torch.Tensor

    @property
    def mask(self) -> torch.Tensor:
        """True at supervised positions."""
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
            whole = np.ascontiguousarray(small)
            return torch.from_numpy(whole if whole.flags.writeable else whole.copy()).to(device)

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
        """All rows in order, `size` at a time, cut to their first `length` actions."""
        starts = range(0, len(self), size)
        return tuple(self.rows(slice(start, start + size), length) for start in starts)

    def batch(
        self, seed: int, index: int, size: int, part: slice = slice(None), length: int | None = None
    ) -> Batch:
        """Batch number `index` in the order given by `seed`; `part` selects one process's share."""
        return self.rows(self._put(batch_rows(len(self), size, seed, index)[part]), length)

    def batches_of(
        self, seeds: Sequence[int], index: int, size: int, length: int | None = None
    ) -> Batch:
        """Batch number `index` for each of several seeds, concatenated: [S * B, T]."""
        rows = [batch_rows(len(self), size, seed, index) for seed in seeds]
        return self.rows(self._put(np.concatenate(rows)), length)

    def _put(self, rows: np.ndarray) -> torch.Tensor:
        """Copy to the device without waiting for it."""
        host, device = torch.from_numpy(rows), self.actions.device
        return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host


def batch_rows(n: int, size: int, seed: int, index: int) -> np.ndarray:
    """Rows of batch `index` in an endless stream of shuffled epochs over `n` rows."""
    start = index * size
    pieces = []
    while size > 0:
        epoch, offset = divmod(start, n)
        piece = _epoch(n, seed, epoch)[offset : offset + size]
        pieces.append(piece)
        start, size = start + len(piece), size - len(piece)
    return np.concatenate(pieces, dtype=np.int64)


def _epoch(n: int, seed: int, epoch: int) -> np.ndarray:
    latest = _latest_epoch(n, seed)
    if epoch not in latest:
        order = np.random.default_rng([seed, epoch]).permutation(n)
        latest.clear()
        latest[epoch] = order.astype(np.int32 if n < 2**31 else np.int64)
    return latest[epoch]


@lru_cache(maxsize=512)
def _latest_epoch(n: int, seed: int) -> dict[int, np.ndarray]:
    """The order of one epoch of each of many seeds, which are trained together."""
    return {}
