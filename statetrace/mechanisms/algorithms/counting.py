"""Counting: a state modulo ever smaller normal subgroups, one abelian factor per layer.

Where G/N is abelian, the state's coset by N is a count: how often each factor occurred, in any
order. One layer of attention can count. With a representative q for each coset, the cosets q[t] of
the prefixes turn the word into one in N,

    x[t] = q[t-1] a[t] q[t]^-1,    since    s[t] = a[0] ... a[t] = (x[0] ... x[t]) q[t],

which the next layer treats in the same way with a smaller subgroup. x[t] is local: q[t-1] is the
representative of q[t] a[t]^-1, so a token that knows q[t] and its own action needs no other.

This is the appendix's "a constant-depth algorithm exists for S3" for any chain of normal subgroups.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from statetrace.groups import Group
from statetrace.groups.structure import coset_map
from statetrace.mechanisms.algorithms.program import Mask, Program, Registers, Subset


@dataclass(frozen=True)
class Counting(Program):
    """The first register holds the word x that is still to be composed, the others the counts; the
    state is x[0] ... x[t], then the last count, ..., then the first."""

    @property
    @abstractmethod
    def chain(self) -> tuple[Subset, ...]:
        """Normal subgroups, the whole group first, each in the one before with abelian quotient."""

    @property
    def stages(self) -> int:
        """Layers that count."""
        return len(self.chain) - 1

    @property
    def registers(self) -> tuple[str, ...]:
        orders = [len(subgroup) for subgroup in self.chain]
        counts = (before // after for before, after in pairwise(orders))
        return ("rest", *(f"count of {number}" for number in counts))

    def step(self, layer: int, h: Registers) -> Registers:
        if layer > self.stages:
            return h
        h = h.copy()
        h[..., 0], h[..., layer] = self._count(h[..., 0], self._representatives[layer - 1])
        return h

    def reads(self, layer: int, length: int) -> Mask:
        counts = layer <= self.stages
        return np.tri(length, dtype=bool) if counts else np.eye(length, dtype=bool)

    def read(self, h: Registers) -> Registers:
        state = h[..., 0]
        for number in range(h.shape[-1] - 1, 0, -1):
            state = self.multiply(state, h[..., number])
        return state

    def unknown(self, layer: int) -> Subset:
        return self.chain[min(layer, self.stages)]

    def _count(self, word: Registers, representative: Registers) -> tuple[Registers, Registers]:
        """The remaining word, and the cosets of its prefixes; all [B, T]."""
        counted = representative[word]
        back = 1
        # doubling is only the fastest way to a running total in numpy: in an abelian factor order
        # does not matter, and a model may add all tokens at once
        while back < word.shape[1]:
            earlier, here = counted[:, :-back], counted[:, back:]
            counted = np.concatenate(
                [counted[:, :back], representative[self.multiply(earlier, here)]], axis=1
            )
            back *= 2
        return divided(self, word, counted, representative), counted

    @cached_property
    def _representatives(self) -> list[Registers]:
        """For each stage, element -> representative of its coset by the smaller subgroup."""
        return [representatives(self.group, subgroup) for subgroup in self.chain[1:]]


def divided(
    program: Program, word: Registers, cosets: Registers, representative: Registers
) -> Registers:
    """The word x in the subgroup, from a word and the cosets of its prefixes; all [B, T]."""
    inverse = program.group.inverse.astype(np.int16)
    before = representative[program.multiply(cosets, inverse[word])]
    return program.multiply(program.multiply(before, word), inverse[cosets])


def representatives(group: Group, subgroup: Subset) -> Registers:
    """Element -> representative of its coset: [order]."""
    coset_of = coset_map(group.table, np.array(subgroup))
    _, first = np.unique(coset_of, return_index=True)
    # the subgroup itself is represented by the identity, so that an empty count does nothing
    first[coset_of[group.identity]] = group.identity
    return first.astype(np.int16)[coset_of]
