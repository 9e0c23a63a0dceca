"""The arguments of the operations, shared by the plain ones and the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True)
class Dropout:
    """A dropout mask: element `i` of seed `s` is a function of (keys[s], salt, i) alone.

    Attributes:
        share: probability that an element is dropped.
        keys: [S] int64, numbers below 2^32, on the device (they change from step to step).
        salt: distinguishes the masks of one step.
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
class Residual:
    """What a sublayer adds to the residual stream: [S, N, D] and its bias [S, D], which has a
    role ("3.out.b")."""

    delta: torch.Tensor
    bias: torch.Tensor
    drop: Dropout | None = None
    role: str = ""


@dataclass(frozen=True)
class HeadLayout:
    """How attention reads the joint projection [S, B * T, 3 * H * E].

    Attributes:
        strides: within a row, from query to key and from head to head.
        rotation: (cosines, signed sines), [T, E] each, or None.
        partners: [E], which dimension each is rotated with.
        rotated: how many dimensions are rotated.
    """

    batch: int
    length: int
    heads: int
    width: int
    strides: tuple[int, int]
    rotation: tuple[torch.Tensor, torch.Tensor] | None
    partners: torch.Tensor
    rotated: int
    drop: Dropout | None = None

    @property
    def scale(self) -> float:
        return self.width**-0.5


class DeferredSums(Protocol):
    """Sums over rows that an operation leaves to be finished, perhaps together with those of other
    layers: it writes partial sums [S, programs, vectors, D] into `allocate`, and `add_to` names the
    gradients [S, D] they belong to, for each target the number of its vector."""

    def allocate(self, *shape: int) -> torch.Tensor: ...

    def add_to(self, targets: Sequence[torch.Tensor], sources: Sequence[int]) -> None: ...


LONGEST = 128
LONGEST_IN_FLOAT32 = 64
WIDEST = 128
"""Largest number of positions and width of a head that the attention kernel holds at once. In
float32 two blocks of positions would take minutes to compile."""

MASK32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
FIRST, SECOND = 0x7FEB352D, 0x846CA68B
"""Multipliers of a 32-bit mixing function (C. Wellons' lowbias32)."""
