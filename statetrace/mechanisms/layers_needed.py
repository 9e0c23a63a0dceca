"""The layers that a program needs for an answer, by length, as the depth lens measures them.

Cost: layers^2 steps of the program for each length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace.mechanisms.algorithms.program import Program
from statetrace.mechanisms.signatures import corrupted_pairs, split_pairs


def layers_needed(
    program: Program, lengths: tuple[int, ...], pairs: int, classes: NDArray[Any] | None
) -> dict[str, list[float | None]]:
    """Split ("all", "same", "opposite") -> for each length the mean number of rows at which the
    last token may restart from the corrupted run and the clean answer still comes out; None where
    there is no such pair. `classes` split the pairs: parity, or another quotient's map."""
    program = program.up_to(max(lengths))
    layers = program.depth(max(lengths))
    needed: dict[str, list[float | None]] = {}
    for length in lengths:
        drawn = corrupted_pairs(program.group, length, pairs, 0)
        clean, corrupted = (program.run(actions, layers) for actions in drawn)  # [rows, P, T, R]
        count = np.zeros(clean.shape[1])
        for row in range(layers + 1):
            h = clean[row].copy()
            h[:, -1] = corrupted[row][:, -1]
            for layer in range(row + 1, layers + 1):
                h = program.step(layer, h)
            count += (h[:, -1] == clean[-1][:, -1]).all(-1)
        for split, chosen in split_pairs(classes, *drawn).items():
            mean = float(count[chosen].mean()) if chosen.any() else None
            needed.setdefault(split, []).append(mean)
    return needed
