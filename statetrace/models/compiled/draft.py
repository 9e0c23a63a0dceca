"""A circuit under construction: registers, their values at the tokens, blocks.

Every circuit has registers `one` (always 1) and `position` (a bit per position). Between blocks a
register is either empty at every position or holds a code of constant norm at every position.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from statetrace.config.compile_spec import CompileSpec
from statetrace.groups import Group
from statetrace.models.compiled.circuit import Array, Block, Circuit, Head, Layout, Units
from statetrace.models.compiled.codes import Code
from statetrace.tasks.folds import Layer

ATTENTION = 25.0
"""Score of the attended position over all others; exp(-25) is negligible in float32."""


class Draft:
    """One circuit of a model.

    Args:
        share: of the logits; a circuit with share 0 is computed but not read.
        beside: another circuit of the same model, complete; both read `one` and `position`.
    """

    def __init__(
        self,
        spec: CompileSpec,
        group: Group,
        algorithm: str,
        share: float = 1.0,
        beside: Draft | None = None,
    ) -> None:
        self.spec, self.group, self.algorithm = spec, group, algorithm
        self.sharpness = share * spec.sharpness
        self.offset = int(spec.start_marker)
        self.places = spec.positions + self.offset
        self.layout = Layout()
        self.layout.add("one", 1)
        self.layout.add("position", self.places)
        if beside is not None:
            self.layout.size = beside.layout.size
        self.blocks: list[Block] = []
        self._tokens: list[tuple[str, Array]] = []
        self._readout: list[tuple[str, Array]] = []

    @property
    def one(self) -> int:
        return self.layout.at("one")

    def token_register(self, name: str, bits: Array) -> str:
        """A register set by the token: bits [order, size]; the marker acts as the identity."""
        self.layout.add(name, bits.shape[1])
        self._tokens.append((name, bits))
        return name

    def read(self, name: str, weights: Array) -> None:
        """Logits read this register: weights [order, size]."""
        self._readout.append((name, weights))

    def shift(self, sources: NDArray[np.int64], moves: list[tuple[str, str]]) -> Head:
        """A head that attends from each position to that in `sources`, and copies registers."""
        place = self.layout.at("position")
        query = [(place + t, int(source), ATTENTION) for t, source in enumerate(sources)]
        key = [(place + p, p, 1.0) for p in range(self.places)]
        value, output, inner = [], [], 0
        for origin, target in moves:
            for i in range(self.layout.width(origin)):
                value.append((self.layout.at(origin, i), inner, 1.0))
                output.append((self.layout.at(target, i), inner, 1.0))
                inner += 1
        return Head(query, key, value, output, max(self.places, inner))

    def fold(self, layers: Sequence[Layer], registers: list[tuple[Code, str]]) -> None:
        """A block per layer of a fold, which multiplies the registers of an earlier position with
        the own ones; where the layer names the own position, nothing changes."""
        for _, own in registers:
            if layers:
                self.layout.add(f"{own} fetched", self.layout.width(own))
        here = np.arange(self.places)
        for number, layer in enumerate(layers, 1):
            sources = np.concatenate([here[: self.offset], layer + self.offset])
            self._compose(f"fold {number}", sources, registers)

    def _compose(
        self, name: str, sources: NDArray[np.int64], registers: list[tuple[Code, str]]
    ) -> None:
        head = self.shift(sources, [(own, f"{own} fetched") for _, own in registers])
        units = Units()
        place = self.layout.at("position")
        elsewhere = [place + int(t) for t in np.flatnonzero(sources == np.arange(self.places))]
        for code, own in registers:
            mine, theirs = self.layout.at(own), self.layout.at(f"{own} fetched")
            for left, right, result in zip(code.left, code.right, code.result, strict=True):
                bits = [theirs + int(left), mine + int(right)]
                units.when(bits, [(mine + int(result), 1.0)], unless=elsewhere)
            for i in range(code.size):
                reads = [(mine + i, 1.0), *((t, -2.0) for t in elsewhere)]
                units.add(reads, 0.0, [(mine + i, -1.0)])
                units.add([(theirs + i, 1.0)], 0.0, [(theirs + i, -1.0)])
        self.blocks.append(Block(name, [head], units))

    def write(self, tokens: Array, readout: Array) -> None:
        """Put the registers that tokens set and those that logits read into the circuit's arrays,
        [vocabulary, size] each."""
        order = self.group.order
        tokens[:, self.one] = 1.0
        for name, bits in self._tokens:
            tokens[:order, self.layout[name]] = bits
            if self.offset:
                tokens[order, self.layout[name]] = bits[self.group.identity]
        for name, weights in self._readout:
            readout[:order, self.layout[name]] += weights


def join(drafts: list[Draft]) -> Circuit:
    """The circuits of one model, side by side; each has its registers after those of the one
    before, and the names of those of the second begin with "second"."""
    first, size = drafts[0], drafts[-1].layout.size
    order, vocabulary = first.group.order, first.group.order + first.offset
    tokens, readout = np.zeros((vocabulary, size)), np.zeros((vocabulary, size))
    layout = Layout(dict(first.layout.slices), size)
    for draft in drafts:
        draft.write(tokens, readout)
        if draft is not first:
            layout.slices |= {f"second {name}": at for name, at in draft.layout.slices.items()}
    positions = np.zeros((first.places, size))
    positions[:, layout["position"]] = np.eye(first.places)
    if first.offset:
        readout[order, first.one] = -first.spec.sharpness  # the marker is never an answer
    blocks = reduce(_side_by_side, (draft.blocks for draft in drafts))
    return Circuit(order, layout, tokens, positions, blocks, readout)


def _side_by_side(left: list[Block], right: list[Block]) -> list[Block]:
    """The next blocks of both in one. A block that counts has no other beside it: its count changes
    the scale of all registers."""
    left, right, blocks = list(left), list(right), []
    while left and right:
        counting = next((side for side in (left, right) if side[0].count), None)
        if counting:
            blocks.append(counting.pop(0))
            continue
        first, second = left.pop(0), right.pop(0)
        units = Units()
        units.extend(first.units)
        units.extend(second.units)
        blocks.append(Block(f"{first.name}, {second.name}", [*first.heads, *second.heads], units))
    return [*blocks, *left, *right]
