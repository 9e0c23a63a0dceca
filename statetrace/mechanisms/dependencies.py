"""The cells of a program's table that the last token's answer depends on (Figure 1 D).

They are traced back from the answer through what each cell reads. Cost: a matrix of length x length
per layer.
Caveat: a cell is read as a whole. Cells that are not listed never affect the answer; one that is
listed need not affect it in every sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.mechanisms.algorithms.program import Mask, Program, check_layers

Arrow = tuple[int, int, int]
"""(layer, source, target): row `layer` at token `target` reads row `layer` - 1 at `source`."""


@dataclass(frozen=True, eq=False)
class Dependencies:
    """What the answer at the last token depends on.

    Attributes:
        algorithm, group, length: the program and its sequences.
        used: the cells [rows, T].
        arrows: from used cells to used cells, those of the first layer first.
    """

    algorithm: str
    group: str
    length: int
    used: Mask
    arrows: tuple[Arrow, ...]

    def table(self) -> dict[str, list[Any]]:
        """The tidy table, column name -> values, one arrow per row."""
        rows = len(self.arrows)
        layers, sources, targets = zip(*self.arrows, strict=True) if rows else ((), (), ())
        return {
            "algorithm": [self.algorithm] * rows,
            "group": [self.group] * rows,
            "length": [self.length] * rows,
            "measure": ["arrow"] * rows,
            "layer": list(layers),
            "position": list(targets),
            "source": list(sources),
        }


def dependencies(program: Program, length: int, layers: int | None = None) -> Dependencies:
    """For sequences of `length` actions and `layers` layers (default: what the program needs)."""
    if length < 1:
        raise StatetraceError(f"length {length} is too short; use 1 or more")
    layers = program.depth(length) if layers is None else check_layers(layers)
    used = np.zeros((layers + 1, length), dtype=bool)
    used[layers, -1] = True
    arrows: list[Arrow] = []
    for layer in range(layers, 0, -1):
        read = program.reads(layer, length) & used[layer][:, None]  # [to, from]
        used[layer - 1] = read.any(0)
        arrows += [
            (layer, int(source), int(to)) for to, source in zip(*read.nonzero(), strict=True)
        ]
    return Dependencies(program.name, program.group.name, length, used, tuple(sorted(arrows)))
