"""Documents for next-token prediction: batches as a function of (seed, index), drawn when needed.

Cost: drawing a batch of 512 documents of 32 tokens takes about a millisecond on a CPU; nothing is
stored, and documents repeat only by chance.
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
    """Element indices [B, T] -> the batch in which each is the target at the position before it.

    The start marker predicts the first token; the last token has no target. All shapes are those of
    the state task.
    """
    tokens = vocabulary.encode(elements, rows)  # [B, tokens]
    targets = torch.full_like(tokens, UNSUPERVISED)
    targets[:, :-1] = tokens[:, 1:]
    return Batch(tokens, targets)


@dataclass(frozen=True)
class Documents:
    """An endless stream of documents.

    Attributes:
        draw: draws documents.
        length: tokens of a document, without the start marker.
        vocabulary: element -> token id, and the start marker.
        device: of the batches.
    """

    draw: Draw
    length: int
    vocabulary: Vocabulary
    device: torch.device | str

    def batch(
        self, seed: int, index: int, size: int, part: slice = slice(None), length: int | None = None
    ) -> Batch:
        """Batch number `index` of the stream `seed`; `part` selects one process's share."""
        rows = torch.arange(index * size, (index + 1) * size, device=self.device)[part]
        return self._batch(self._elements(seed, index, size)[part, :length], rows)

    def batches_of(
        self, seeds: Sequence[int], index: int, size: int, length: int | None = None
    ) -> Batch:
        """Batch number `index` of each of several streams, concatenated: [S * B, T]."""
        drawn = np.concatenate([self._elements(seed, index, size) for seed in seeds])
        rows = torch.arange(index * size, (index + 1) * size, device=self.device)
        return self._batch(drawn[:, :length], rows.repeat(len(seeds)))

    def _elements(self, seed: int, index: int, size: int) -> np.ndarray:
        return self.draw(np.random.default_rng([seed, index]), size, self.length)

    def _batch(self, elements: np.ndarray, rows: torch.Tensor) -> Batch:
        indices = torch.from_numpy(elements.astype(np.int64)).to(self.device, non_blocking=True)
        return next_tokens(indices, self.vocabulary, rows)
