"""Documents to predict the next token of: batches made from (seed, index), drawn when needed.

Cost: drawing a batch of 512 documents of 32 tokens takes about a millisecond on a CPU; nothing is
stored, so no document comes twice but by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from statetrace.tasks.batch import UNSUPERVISED, Batch
from statetrace.tasks.vocabulary import Vocabulary

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
"""(random numbers, n, length) -> indices into the vocabulary's elements [n, length]."""


def next_tokens(
    elements: torch.Tensor, vocabulary: Vocabulary, rows: torch.Tensor | None = None
) -> Batch:
    """Element indices [B, T] -> the batch that asks for each of them at the position before it.

    The start marker is asked for the first token; the last token, which nothing follows, is read
    but asks for nothing. All shapes are those of the state task.
    """
    tokens = vocabulary.encode(elements, rows)  # [B, tokens]
    targets = torch.full_like(tokens, UNSUPERVISED)
    targets[:, :-1] = tokens[:, 1:]
    return Batch(tokens, targets)


@dataclass(frozen=True)
class Documents:
    """An endless supply.

    Attributes:
        draw: where documents come from.
        length: tokens of a document, without the start marker.
        vocabulary: element -> token id, and the start marker.
        device: where batches are put.
    """

    draw: Draw
    length: int
    vocabulary: Vocabulary
    device: torch.device | str

    def batch(
        self,
        seed: int,
        index: int,
        size: int,
        part: slice = slice(None),
        length: int | None = None,
    ) -> Batch:
        """Batch number `index` of the order `seed`; `part` picks one process's share of it."""
        rows = torch.arange(index * size, (index + 1) * size, device=self.device)[part]
        return self._batch(self._elements(seed, index, size)[part, :length], rows)

    def batches_of(
        self, seeds: Sequence[int], index: int, size: int, length: int | None = None
    ) -> Batch:
        """Batch number `index` of each of several orders, one after the other: [S * B, T]."""
        drawn = np.concatenate([self._elements(seed, index, size) for seed in seeds])
        rows = torch.arange(index * size, (index + 1) * size, device=self.device)
        return self._batch(drawn[:, :length], rows.repeat(len(seeds)))

    def _elements(self, seed: int, index: int, size: int) -> np.ndarray:
        return self.draw(np.random.default_rng([seed, index]), size, self.length)

    def _batch(self, elements: np.ndarray, rows: torch.Tensor) -> Batch:
        there = torch.from_numpy(elements.astype(np.int64)).to(self.device, non_blocking=True)
        return next_tokens(there, self.vocabulary, rows)
