"""A circuit under construction: registers, their values at the tokens, blocks.

Every circuit has registers `one` (always 1) and `position` (a bit per position). Between blocks a
register is either empty at every position or holds a code of constant norm at every position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from statetrace.config.compile_spec import CompileSpec
from statetrace.groups import Group
from statetrace.models.compiled.circuit import Array, Block, Circuit, Head, Layout, Units
from statetrace.models.compiled.codes import Code

ATTENTION = 25.0
"""Score of the attended position over all others; exp(-25) is negligible in float32."""


class Draft:
    def __init__(self, spec: CompileSpec, group: Group) -> None:
        self.spec, self.group = spec, group
        self.offset = int(spec.start_marker)
        self.places = spec.positions + self.offset
        self.layout = Layout()
        self.layout.add("one", 1)
        self.layout.add("position", self.places)
        self.filled: dict[str, float] = {"one": 1.0, "position": 1.0}
        """Registers that are not empty between blocks, with their squared norm."""
        self.blocks: list[Block] = []
        self._tokens: list[tuple[str, Array]] = []
        self._readout: list[tuple[str, Array]] = []

    @property
    def norm2(self) -> float:
        """Squared norm of the residual stream between blocks."""
        return sum(self.filled.values())

    @property
    def one(self) -> int:
        return self.layout.at("one")

    def token_register(self, name: str, bits: Array) -> str:
        """A register set by the token: bits [order, size]; the marker acts as the identity."""
        self.layout.add(name, bits.shape[1])
        self._tokens.append((name, bits))
        self.filled[name] = float((bits[0] ** 2).sum())
        return name

    def read(self, name: str, weights: Array) -> None:
        """Logits read this register: weights [order, size]."""
        self._readout.append((name, weights))

    def action_number(self) -> NDArray[np.int64]:
        """[places]: 0 for the first action, and -1 for the marker."""
        return np.arange(self.places) - self.offset

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

    def compose(
        self, name: str, distance: int, at: NDArray[np.bool_], registers: list[tuple[Code, str]]
    ) -> None:
        """A block that multiplies the register from `distance` positions back with the own one, at
        the positions `at`; elsewhere nothing changes."""
        here = np.arange(self.places)
        for _, own in registers:
            if f"{own} fetched" not in self.layout.slices:
                self.layout.add(f"{own} fetched", self.layout.width(own))
        moves = [(own, f"{own} fetched") for _, own in registers]
        head = self.shift(np.where(at, here - distance, here), moves)
        units = Units()
        place = self.layout.at("position")
        elsewhere = [place + int(t) for t in np.flatnonzero(~at)]
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

    def circuit(self) -> Circuit:
        order, size = self.group.order, self.layout.size
        tokens = np.zeros((order + self.offset, size))
        tokens[:, self.one] = 1.0
        for name, bits in self._tokens:
            tokens[:order, self.layout[name]] = bits
            if self.offset:
                tokens[order, self.layout[name]] = bits[self.group.identity]
        positions = np.zeros((self.places, size))
        positions[:, self.layout["position"]] = np.eye(self.places)
        readout = np.zeros((order + self.offset, size))
        for name, weights in self._readout:
            readout[:order, self.layout[name]] += weights
        if self.offset:
            readout[order, self.one] = -self.spec.sharpness  # the marker is never an answer
        return Circuit(order, self.layout, tokens, positions, self.blocks, readout)
