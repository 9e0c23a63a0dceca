"""Counting in one block: attention computes an average, the MLP reads the count modulo m from it.

There are two kinds of heads. The *selective* one attends to the marker and to every action that
counts, so with c such actions, wherever they are, the marker gets weight w / (w + c); for parity
this is the paper's parity head. The *average* attends to everything alike and gets c / (t + 1),
which the MLP has to decode for each position.

An average is the only quantity here whose norm varies, and LayerNorm divides by that norm. But it
takes few values, each with a known norm, so the steps of the MLP's staircase are scaled up by
exactly what LayerNorm removes: nothing is approximate.

Cost: 3 units per value; the average has about (places^2)/2 values, the selective head `places`.
Caveat: the selective head's steps are about w/c^2 apart, the first thing that noise breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.models.compiled.circuit import Block, Head, Units
from statetrace.models.compiled.draft import ATTENTION, Draft


def count_block(
    draft: Draft, name: str, values: Sequence[tuple[int, int]], modulus: int, counter: str
) -> str:
    """Sum `values`, (coordinate of a bit, its value), over all positions so far; the sum modulo
    `modulus` is written into a new register, one bit per residue, whose name is returned."""
    if counter == "average":
        return _average(draft, name, values, modulus)
    if not draft.offset:
        raise StatetraceError(
            "counter 'selective' attends to the start marker, and there is none; use counter "
            "'average'"
        )
    kinds = sorted({value for _, value in values if value})
    if kinds == [1]:
        return _selective(draft, name, [bit for bit, value in values if value], modulus)
    # each value is counted separately, and another block adds them up
    counted = [
        _selective(draft, f"{name} of {kind}", [b for b, v in values if v == kind], modulus)
        for kind in kinds
    ]
    return _add_up(draft, name, counted, kinds, modulus)


def _average(draft: Draft, name: str, values: Sequence[tuple[int, int]], modulus: int) -> str:
    x = _registers(draft, name, modulus)
    head = Head([], [], [(bit, 0, float(v)) for bit, v in values if v], [(x, 0, 1.0)], 1)
    most = max(value for _, value in values)

    def staircase(norm2: float) -> Units:
        units = Units()
        for place in range(draft.places):
            actions = place + 1 - draft.offset
            counts = np.arange(most * actions + 1, dtype=np.int64)
            gate = draft.layout.at("position", place)
            points = counts / (place + 1)
            _staircase(draft, units, name, x, counts, points, modulus, norm2, gate, most)
        return units

    draft.blocks.append(Block(f"count {name}", [head], count=(x,), staircase=staircase))
    return name


def _selective(draft: Draft, name: str, bits: Sequence[int], modulus: int) -> str:
    x = _registers(draft, name, modulus)
    marker = draft.layout.at("position", 0)
    weight = max(1.0, draft.places / 16)  # more on the marker, to separate the steps
    head = Head(
        query=[(draft.one, 0, ATTENTION)],
        key=[(marker, 0, 1.0 + np.log(weight) / ATTENTION), *((bit, 0, 1.0) for bit in bits)],
        value=[(marker, 0, 1.0)],
        output=[(x, 0, 1.0)],
        inner=1,
    )

    def staircase(norm2: float) -> Units:
        units = Units()
        counts = np.arange(draft.places, dtype=np.int64)
        points = weight / (weight + counts)
        _staircase(draft, units, name, x, counts, points, modulus, norm2, gate=None)
        return units

    draft.blocks.append(Block(f"count {name}", [head], count=(x,), staircase=staircase))
    return name


def _registers(draft: Draft, name: str, modulus: int) -> int:
    """Add one for the residue, and one for the average within the block; the latter's
    coordinate."""
    draft.layout.add(name, modulus)
    return draft.layout.at(draft.layout.add(f"{name} count", 1))


def _add_up(draft: Draft, name: str, counted: list[str], kinds: list[int], modulus: int) -> str:
    """A block without heads: the sum of kind x count over the kinds."""
    draft.layout.add(name, modulus)
    units = Units()
    for residues in product(range(modulus), repeat=len(kinds)):
        bits = [draft.layout.at(part, r) for part, r in zip(counted, residues, strict=True)]
        total = sum(kind * r for kind, r in zip(kinds, residues, strict=True)) % modulus
        units.when(bits, [(draft.layout.at(name, total), 1.0)])
    draft.blocks.append(Block(f"add up {name}", units=units))
    return name


def _staircase(
    draft: Draft,
    units: Units,
    name: str,
    x: int,
    counts: NDArray[np.int64],
    points: NDArray[np.floating],
    modulus: int,
    norm2: float,
    gate: int | None,
    largest: int = 1,
) -> None:
    """Units that map x = points[i] to the residue of counts[i], and reset x to 0.

    The residue is flat around each point, for robustness to noise; x is reset linearly. Points
    increase or decrease; steps add up in their order, and so do rounding errors, in proportion to
    the steepness of each step: wide steps should come first. With a gate the units are active only
    where that bit is 1, with x at most `largest` elsewhere.
    """
    shrink = np.sqrt(norm2 / (norm2 + points**2))  # the effect of LayerNorm on 1
    steps = np.eye(modulus)[counts % modulus] / shrink[:, None]
    undo = -points / shrink
    base = draft.layout.at(name)
    residue = [base + i for i in range(modulus)]
    held = largest + 1.0  # keeps a gated unit at zero elsewhere

    start = [*zip(residue, steps[0], strict=True), (x, float(undo[0]))]
    units.add([(draft.one if gate is None else gate, 1.0)], 0.0, start)
    gaps = np.abs(np.diff(points))
    way = float(np.sign(points[-1] - points[0]))
    slopes = np.diff(undo) / gaps  # of the line that resets x
    for i, gap in enumerate(gaps):
        size = float(np.sqrt(1 / gap))  # half of the steepness on either side of the unit
        rise = (steps[i + 1] - steps[i]) / (gap / 2) / size
        bend = float(slopes[i] - (slopes[i - 1] if i else 0.0)) / size
        for along, writes in (
            (0.0, [(x, bend)]),
            (gap / 4, list(zip(residue, rise, strict=True))),
            (3 * gap / 4, list(zip(residue, -rise, strict=True))),
        ):
            knot = way * float(points[i]) + along
            reads = [(x, way * size), (draft.one, -size * knot)]
            if gate is not None:
                reads[1] = (draft.one, -size * (knot + held))
                reads.append((gate, size * held))
            nonzero = [(to, float(weight)) for to, weight in writes if weight]
            units.add(reads, 0.0, nonzero)
