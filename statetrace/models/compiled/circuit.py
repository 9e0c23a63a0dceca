"""The parts of a compiled transformer before they become weights.

In plain coordinates the residual stream is a row vector z, split into named registers. A `Head`
moves registers between positions, `Units` are rectified units of the MLP, a `Block` has both.
`assemble.py` turns blocks into a GPT-2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Layout:
    """The coordinates of each register; grows while a circuit is written."""

    slices: dict[str, slice] = field(default_factory=dict)
    size: int = 0

    def add(self, name: str, size: int) -> str:
        assert name not in self.slices, name
        self.slices[name] = slice(self.size, self.size + size)
        self.size += size
        return name

    def __getitem__(self, name: str) -> slice:
        return self.slices[name]

    def at(self, name: str, index: int = 0) -> int:
        """The coordinate of a register's bit."""
        return self.slices[name].start + index

    def width(self, name: str) -> int:
        return self.slices[name].stop - self.slices[name].start


@dataclass(frozen=True)
class Head:
    """Score of source p for query t: (z_t query) . (z_p key); it moves z_p value output.

    Sparse: lists of (coordinate, inner dimension, weight), so that a head can be written before the
    layout is complete.
    """

    query: Sequence[tuple[int, int, float]]
    key: Sequence[tuple[int, int, float]]
    value: Sequence[tuple[int, int, float]]
    output: Sequence[tuple[int, int, float]]
    inner: int
    """Inner dimensions used, at most the width of a head."""


@dataclass
class Units:
    """Rectified units: each has inputs, a bias and outputs."""

    inputs: list[tuple[int, int, float]] = field(default_factory=list)  # coordinate, unit, weight
    biases: list[float] = field(default_factory=list)
    outputs: list[tuple[int, int, float]] = field(default_factory=list)  # unit, coordinate, weight

    def add(self, reads: Sequence[tuple[int, float]], bias: float, writes: Writes) -> None:
        """Add a unit relu(sum of weight x coordinate + bias) and its outputs."""
        unit = len(self.biases)
        self.inputs += [(coordinate, unit, weight) for coordinate, weight in reads]
        self.biases.append(bias)
        self.outputs += [(unit, coordinate, weight) for coordinate, weight in writes]

    def when(self, bits: Sequence[int], writes: Writes, unless: Sequence[int] = ()) -> None:
        """Add two units whose difference is 1 if all of `bits` are 1 and none of `unless`, else 0;
        an error of up to a quarter in the sum of the bits is removed."""
        reads = [(bit, 2.0) for bit in bits] + [(bit, -4.0) for bit in unless]
        for edge, sign in ((0.75, 1.0), (0.25, -1.0)):
            bias = -2.0 * (len(bits) - edge)
            self.add(reads, bias, [(target, sign * weight) for target, weight in writes])

    def extend(self, other: Units) -> None:
        """Add the units of another list."""
        shift = len(self)
        self.inputs += [(at, unit + shift, weight) for at, unit, weight in other.inputs]
        self.biases += other.biases
        self.outputs += [(unit + shift, at, weight) for unit, at, weight in other.outputs]

    def __len__(self) -> int:
        return len(self.biases)


Writes = Sequence[tuple[int, float]]


@dataclass
class Block:
    """One transformer block.

    Attributes:
        count: coordinates that hold averages after the attention, the only ones whose norm may vary
            there; `counting.py` undoes the effect of LayerNorm on them.
        staircase: the units that do so, given the squared norm of all other coordinates.
    """

    name: str
    heads: list[Head] = field(default_factory=list)
    units: Units = field(default_factory=Units)
    count: tuple[int, ...] = ()
    staircase: Callable[[float], Units] | None = None


@dataclass
class Circuit:
    """A whole compiled model in plain coordinates.

    Attributes:
        order: of the group; the marker, if there is one, is the token after its elements.
        tokens: [vocabulary, size], the token embedding.
        positions: [positions, size], the position embedding.
        readout: [vocabulary, size] logits = readout @ z.
    """

    order: int
    layout: Layout
    tokens: Array
    positions: Array
    blocks: list[Block]
    readout: Array
