"""The associative algorithm (§3.3): products of the last 1, 2, 4, ... actions, layer by layer.

h[t, l] is the product of the last 2^l actions up to t, or of all of them where there are fewer.

Caveat: the paper composes "if l <= log(t + 1)", which for a t + 1 between two powers of two would
leave out the last step; its text (h[t, log(t + 1)] = s[t]) needs the logarithm rounded up, as here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statetrace.mechanisms.algorithms.program import Mask, Program, Registers


@dataclass(frozen=True)
class Associative(Program):
    """Needs log2(length) layers, rounded up."""

    name = "associative"
    registers = ("product",)

    def step(self, layer: int, h: Registers) -> Registers:
        return scan_step(self, h, 2 ** (layer - 1))

    def reads(self, layer: int, length: int) -> Mask:
        return scan_reads(length, 2 ** (layer - 1))

    def reaches(self, layer: int, length: int) -> bool:
        return length <= 2**layer or self.group.order == 1


def scan_step(program: Program, h: Registers, back: int) -> Registers:
    """One doubling of the first register: what is `back` tokens earlier, then what is here.

    Tokens without one that far back already hold the product of all actions. h [B, T, R].
    """
    h = h.copy()
    if back < h.shape[1]:
        h[:, back:, 0] = program.multiply(h[:, :-back, 0], h[:, back:, 0])
    return h


def scan_reads(length: int, back: int) -> Mask:
    """What scan_step reads, [to, from]: the cell itself and the one `back` before it."""
    return np.eye(length, dtype=bool) | np.eye(length, k=-back, dtype=bool)
