"""The parity-associative algorithm (§3.4), for parity or any other solvable quotient G/N.

First the state's image in the quotient is counted (for parity in one layer), which turns the word
into one in N; then that is composed as the associative algorithm does. The paper's registers: the
count is its ε, the rest its κ, and `comp` is multiplication in N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.mechanisms.algorithms.counting import Counting
from statetrace.mechanisms.algorithms.folds import fold_reads, fold_step
from statetrace.mechanisms.algorithms.program import Mask, Registers, Subset
from statetrace.tasks.folds import fold_layers


@dataclass(frozen=True)
class QuotientAssociative(Counting):
    """Needs the counting layers, and log2(length), rounded up."""

    quotient: Quotient

    @classmethod
    def of(cls, group: Group, quotient: Quotient | str | None = None) -> QuotientAssociative:
        """By default the quotient is parity."""
        if quotient is None:
            quotient = _parity(group)
        elif isinstance(quotient, str):
            quotient = group.quotient(quotient)
        last = quotient.image.derived_series()[-1]
        if len(last) > 1:
            raise StatetraceError(
                f"the quotient {quotient.name!r} of {group.name} cannot be counted: its derived "
                f"series stops at a perfect subgroup of order {len(last)}; use a solvable quotient"
            )
        return cls(group, quotient)

    @property
    def name(self) -> str:
        return f"{self.quotient.name}-associative"

    @cached_property
    def chain(self) -> tuple[Subset, ...]:
        """The derived series of the quotient, drawn back to the group: it ends at the kernel."""
        image = self.quotient.image.derived_series()
        return tuple(
            tuple(np.flatnonzero(np.isin(self.quotient.map, members)).tolist()) for members in image
        )

    def step(self, layer: int, h: Registers) -> Registers:
        if layer <= self.stages:
            return super().step(layer, h)
        return fold_step(self, h, fold_layers("associative", h.shape[1]), layer - self.stages)

    def reads(self, layer: int, length: int) -> Mask:
        if layer <= self.stages:
            return super().reads(layer, length)
        return fold_reads(length, fold_layers("associative", length), layer - self.stages)

    def reaches(self, layer: int, length: int) -> bool:
        scanned = layer - self.stages
        nothing_left = len(self.chain[-1]) == 1
        return length == 1 or (scanned >= 0 and (nothing_left or length <= 2**scanned))


def _parity(group: Group) -> Quotient:
    if group.parity is not None:
        # not group.quotient("parity"), which does not exist for groups of two elements
        return group.quotient_by(np.flatnonzero(group.parity == 0).tolist(), "parity")
    try:
        names = [quotient.name for quotient in group.quotients()]
    except StatetraceError:  # too many to list
        names = ["one of its quotients"]
    instead = (
        f"name a quotient to count instead ({', '.join(names)})"
        if names
        else "it has no quotient to count instead, so use associative"
    )
    raise StatetraceError(f"{group.name} has no parity for parity-associative; {instead}")
