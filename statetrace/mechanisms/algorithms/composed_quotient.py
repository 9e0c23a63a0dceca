"""The quotient composed first, then the rest given the quotient: two scans in a row.

As parity-associative, but the state's image in a quotient G/N is not counted: it is composed, as
the associative algorithm composes the state. Every quotient will do, solvable or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.mechanisms.algorithms.counting import divided, representatives
from statetrace.mechanisms.algorithms.folds import fold_reads, fold_step
from statetrace.mechanisms.algorithms.program import Mask, Program, Registers, Subset
from statetrace.tasks.folds import Layer, fold_layers

REST, QUOTIENT, WINDOW = range(3)


@dataclass(frozen=True)
class ComposedQuotient(Program):
    """Needs 2 log2(length) layers, each logarithm rounded up.

    Attributes:
        longest: the length for which the first scan has layers; the second begins after it at every
            length. By default that of the sequences at hand.
    """

    quotient: Quotient
    longest: int = 1
    registers = ("rest", "quotient", "quotient of the last actions")

    @classmethod
    def of(cls, group: Group, quotient: Quotient | str | None = None) -> ComposedQuotient:
        """By default the quotient is parity, or the first one of a group without parity."""
        if isinstance(quotient, str):
            quotient = group.quotient(quotient)
        quotient = quotient or next(iter(group.quotients()), None)
        if quotient is None:
            raise StatetraceError(f"{group.name} has no quotient to compose first; use associative")
        return cls(group, quotient)

    @property
    def name(self) -> str:
        return f"composed-{self.quotient.name}"

    def up_to(self, length: int) -> ComposedQuotient:
        return replace(self, longest=max(length, self.longest))

    def start(self, actions: NDArray[np.integer]) -> Registers:
        h = super().start(actions)
        h[..., WINDOW] = self._representative[h[..., REST]]
        return h

    def step(self, layer: int, h: Registers) -> Registers:
        scan, first = self._scans(h.shape[1])
        if layer > first:
            return fold_step(self, h, scan, layer - first, REST)
        h = fold_step(self, h, scan, layer, WINDOW)
        h[..., WINDOW] = self._representative[h[..., WINDOW]]
        if layer == first:
            window = h[..., WINDOW].copy()
            h[..., REST] = divided(self, h[..., REST], window, self._representative)
            h[..., QUOTIENT], h[..., WINDOW] = window, self.group.identity
        return h

    def reads(self, layer: int, length: int) -> Mask:
        scan, first = self._scans(length)
        return fold_reads(length, scan, layer if layer <= first else layer - first)

    def read(self, h: Registers) -> Registers:
        return self.multiply(h[..., REST], h[..., QUOTIENT])

    def reaches(self, layer: int, length: int) -> bool:
        scan, first = self._scans(length)
        return length == 1 or layer >= first + len(scan)

    def unknown_at(self, layer: int, length: int) -> Subset:
        composed = layer >= len(self._scans(length)[0])
        return self.quotient.kernel if composed else tuple(range(self.group.order))

    def _scans(self, length: int) -> tuple[tuple[Layer, ...], int]:
        """The layers of a scan, and the number of those before the second."""
        scan = fold_layers("associative", length)
        return scan, max(len(scan), (self.longest - 1).bit_length())

    @cached_property
    def _representative(self) -> Registers:
        return representatives(self.group, self.quotient.kernel)
