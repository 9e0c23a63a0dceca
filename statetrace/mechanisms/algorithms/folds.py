"""The sequential (§3.1) and the associative (§3.3) algorithm, and the strided and chunked folds
between them: one product per cell, to which each layer appends an earlier one (tasks/folds.py).

Sequential: h[t, l] is the action a_t while l < t, and the state s_t from l = t on. Associative:
h[t, l] is the product of the last 2^l actions up to t, or of all of them where there are fewer.

Caveat: the paper composes "if l <= log(t + 1)", which for a t + 1 between two powers of two would
leave out the last step; its text (h[t, log(t + 1)] = s[t]) needs the logarithm rounded up, as here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from statetrace.mechanisms.algorithms.program import Mask, Program, Registers
from statetrace.tasks.folds import Layer, fold_layers


@dataclass(frozen=True)
class Fold(Program):
    """Attributes:
    stride: for strided and chunked folds, see tasks/folds.py.
    """

    stride: int = 4
    fold: ClassVar[str]
    registers = ("product",)

    def layers(self, length: int) -> tuple[Layer, ...]:
        return fold_layers(self.fold, length, self.stride)

    def step(self, layer: int, h: Registers) -> Registers:
        return fold_step(self, h, self.layers(h.shape[1]), layer)

    def reads(self, layer: int, length: int) -> Mask:
        return fold_reads(length, self.layers(length), layer)

    def reaches(self, layer: int, length: int) -> bool:
        return layer >= len(self.layers(length)) or self.group.order == 1


class Sequential(Fold):
    """Needs length - 1 layers."""

    name = fold = "sequential"
    registers = ("action or state",)


class Associative(Fold):
    """Needs log2(length) layers, rounded up."""

    name = fold = "associative"


class Strided(Fold):
    """Needs log2(stride) + length / stride - 1 layers, rounded up."""

    name = fold = "strided"


class Chunked(Fold):
    """Needs stride - 1 + length / stride - 1 layers, rounded up."""

    name = fold = "chunked"


def fold_step(
    program: Program, h: Registers, layers: Sequence[Layer], layer: int, register: int = 0
) -> Registers:
    """One layer (1, 2, ...) of a fold of a register; those after the last change nothing. h
    [B, T, R]."""
    h = h.copy()
    if layer <= len(layers):
        source = layers[layer - 1]
        to = np.flatnonzero(source != np.arange(len(source)))
        h[:, to, register] = program.multiply(h[:, source[to], register], h[:, to, register])
    return h


def fold_reads(length: int, layers: Sequence[Layer], layer: int) -> Mask:
    """What fold_step reads, [to, from]: the cell itself and the one that it appends to."""
    reads = np.eye(length, dtype=bool)
    if layer <= len(layers):
        reads[np.arange(length), layers[layer - 1]] = True
    return reads
