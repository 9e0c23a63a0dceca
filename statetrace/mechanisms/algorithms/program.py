"""Program: an algorithm as rules for what each cell h[t, l] of a table holds.

A cell is what a transformer would hold at token t after layer l: a few registers, each an element
of the group. Row 0 holds the actions, as an embedding does; row l is a function of row l - 1, and
never of later tokens. Any row can therefore be overwritten and the program run on from there, which
is how signatures.py predicts the effect of patching a model.

Cost: a layer is at most a few look-ups in the Cayley table per cell, all sequences at once.
Caveat: registers are int16, which a group of 5,040 elements needs; widen before arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups import Group

Registers = NDArray[np.int16]
Mask = NDArray[np.bool_]
Subset = tuple[int, ...]


@dataclass(frozen=True)
class Program(ABC):
    """An algorithm for the word problem of one group, at any length."""

    group: Group

    @property
    @abstractmethod
    def name(self) -> str:
        """As in the paper, or as it is registered."""

    @property
    @abstractmethod
    def registers(self) -> tuple[str, ...]:
        """Names of the R registers."""

    @classmethod
    def of(cls, group: Group) -> Program:
        """The program for a group; raises a StatetraceError where there is none."""
        return cls(group)

    @abstractmethod
    def step(self, layer: int, h: Registers) -> Registers:
        """Row `layer` (1, 2, ...) from the row before it: [B, T, R] -> [B, T, R]."""

    @abstractmethod
    def reads(self, layer: int, length: int) -> Mask:
        """Which cells of the row before it each cell of row `layer` reads: [to, from]."""

    @abstractmethod
    def reaches(self, layer: int, length: int) -> bool:
        """Whether row `layer` holds the state of every sequence of `length` actions."""

    def unknown(self, layer: int) -> Subset:
        """The subgroup up to which row `layer` determines a state that it does not reach.

        Given a cell's registers alone, after uniformly random actions, the states of one coset of
        this subgroup are equally likely and all others impossible.
        """
        return tuple(range(self.group.order))

    def unknown_at(self, layer: int, length: int) -> Subset:
        """As `unknown`, for the last token of sequences of `length` actions."""
        return self.unknown(layer)

    def up_to(self, length: int) -> Program:
        """The program as it runs in a model for sequences of up to `length` actions, where that
        makes a difference."""
        return self

    def start(self, actions: NDArray[np.integer]) -> Registers:
        """Row 0: actions [B, T] in the first register, nothing (the identity) in the others."""
        h = np.full((*actions.shape, len(self.registers)), self.group.identity, dtype=np.int16)
        h[..., 0] = actions
        return h

    def read(self, h: Registers) -> Registers:
        """The state that an unembedding would predict from each cell: [..., R] -> [...]."""
        return h[..., 0]

    def depth(self, length: int) -> int:
        """Layers needed for sequences of that length."""
        return next(layer for layer in count() if self.reaches(layer, length))

    def run(self, actions: NDArray[np.integer], layers: int | None = None) -> Registers:
        """The table [layers + 1, B, T, R] for actions [B, T]. With fewer layers than `depth` some
        states are wrong; more layers change nothing."""
        actions = np.asarray(actions)
        if actions.ndim != 2 or actions.shape[1] < 1:
            raise StatetraceError(
                f"actions of shape {actions.shape} are not sequences; use [sequences, length], "
                "with at least one action each"
            )
        if actions.size and not 0 <= actions.min() <= actions.max() < self.group.order:
            raise StatetraceError(
                f"the actions run from {actions.min()} to {actions.max()}, but {self.group.name} "
                f"has elements 0 to {self.group.order - 1}"
            )
        layers = self.depth(actions.shape[1]) if layers is None else check_layers(layers)
        rows = [self.start(actions)]
        for layer in range(1, layers + 1):
            rows.append(self.step(layer, rows[-1]))
        return np.stack(rows)

    def multiply(self, first: Registers, second: Registers) -> Registers:
        """First, then second, cell by cell."""
        # One flat index is several times quicker than numpy's indexing by two arrays.
        return self._products.take(first.astype(np.intp) * self.group.order + second)

    @cached_property
    def _products(self) -> Registers:
        return self.group.table.astype(np.int16).ravel()


def check_layers(layers: int) -> int:
    if layers < 0:
        raise StatetraceError(f"{layers} layers are too few; use 0 (the embedding alone) or more")
    return layers
