"""The sequential algorithm (§3.1): one more token's state per layer, from left to right.

h[t, l] is the action a_t while l < t, and the state s_t from l = t on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statetrace.mechanisms.algorithms.program import Mask, Program, Registers


@dataclass(frozen=True)
class Sequential(Program):
    """Needs length - 1 layers."""

    name = "sequential"
    registers = ("action or state",)

    def step(self, layer: int, h: Registers) -> Registers:
        h = h.copy()
        if layer < h.shape[1]:
            h[:, layer] = self.multiply(h[:, layer - 1], h[:, layer])  # s[t-1], then a[t]
        return h

    def reads(self, layer: int, length: int) -> Mask:
        reads = np.eye(length, dtype=bool)
        if layer < length:
            reads[layer, layer - 1] = True
        return reads

    def reaches(self, layer: int, length: int) -> bool:
        return length <= layer + 1 or self.group.order == 1
