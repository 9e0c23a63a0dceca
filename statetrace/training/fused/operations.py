"""What the operations are told: the same words for the plain ones and for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True)
class Drop:
    """A dropout mask: element `i` of seed `s` is a function of (keys[s], salt, i) alone.

    Attributes:
        share: of the elements that are dropped.
        keys: [S] int64, numbers below 2^32, on the device (they change from step to step).
        salt: tells apart the masks of one step.
    """

    share: float
    keys: torch.Tensor
    salt: int

    @property
    def spread(self) -> int:
        """The salt, far from its neighbours, as a signed 32-bit number."""
        return ((self.salt * GOLDEN & MASK32) ^ 1 << 31) - (1 << 31)

    @property
    def bound(self) -> int:
        """Elements whose hash is below this are dropped."""
        return int(self.share * 2**32)

    @property
    def scale(self) -> float:
        return 1 / (1 - self.share)


@dataclass(frozen=True)
class Add:
    """Something to be added to the residual stream: [S, N, D] and its bias [S, D]."""

    delta: torch.Tensor
    bias: torch.Tensor
    drop: Drop | None = None


@dataclass(frozen=True)
class Heads:
    """How attention reads the joint projection [S, B * T, 3 * H * E].

    Attributes:
        strides: within a row, from query to key and from head to head.
        rotation: (cosines, signed sines), [T, E] each, or None.
        partners: [E], which dimension each is rotated with.
        rotated: how many are.
    """

    batch: int
    length: int
    heads: int
    width: int
    strides: tuple[int, int]
    rotation: tuple[torch.Tensor, torch.Tensor] | None
    partners: torch.Tensor
    rotated: int
    drop: Drop | None = None

    @property
    def scale(self) -> float:
        return self.width**-0.5


class Later(Protocol):
    """Where an operation leaves sums over rows to be finished, perhaps with those of other layers:
    it writes partial sums [S, programs, vectors, D] into `room`, and says `into` which vectors
    [S, D] of the gradients they go, target by target the number of its vector."""

    def room(self, *shape: int) -> torch.Tensor: ...

    def into(self, targets: Sequence[torch.Tensor], sources: Sequence[int]) -> None: ...


LONGEST = 128
LONGEST_IN_FLOAT32 = 64
WIDEST = 128
"""What the attention kernel holds at once: positions, and the width of a head. In float32 two
blocks of positions would take minutes to compile."""

MASK32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
FIRST, SECOND = 0x7FEB352D, 0x846CA68B
"""Multipliers of a 32-bit mixing function (C. Wellons' lowbias32)."""
