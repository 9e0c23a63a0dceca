"""The parallel algorithm: any solvable group by counting, one abelian factor after another.

Let q_t be the state modulo a subgroup K of the derived series, known at every position, and r(q) a
representative of q. Then f_t = r(q_{t-1}) a_t r(q_t)^-1 lies in K, and modulo the next subgroup,
where K is abelian, the product of all f so far does not depend on their order: it can be counted.

Depth does not depend on the length: for S3 three blocks (parity; signs; rotations modulo 3), or
five if rotations by one and by two positions are counted by separate heads.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.models.compiled.circuit import Block, Units
from statetrace.models.compiled.codes import one_hot_code
from statetrace.models.compiled.counting import count_block
from statetrace.models.compiled.draft import Draft

Ints = NDArray[np.int64]


def parallel(draft: Draft) -> None:
    """Count down the derived series."""
    spec, group = draft.spec, draft.group
    series = group.derived_series()
    if len(series[-1]) > 1:
        raise StatetraceError(
            f"{group.name} is not solvable: its derived series stops at a perfect subgroup of "
            f"{len(series[-1])} elements, so its products cannot be counted in a fixed number of "
            "layers; use sequential or associative"
        )
    action = draft.token_register("action", one_hot_code(group).bits)
    table = group.table.astype(np.int64)
    known: list[str] = []  # registers of residues, which together determine the state modulo K
    moduli: list[int] = []
    residues = np.zeros((group.order, 0), dtype=np.int64)  # their values for each state
    for k, (whole, smaller) in enumerate(pairwise(series)):
        bases = _abelian_basis(table, np.array(whole), np.array(smaller))
        # the representative of every state among those with its residues, and the remainder
        _, first, which = np.unique(residues, axis=0, return_index=True, return_inverse=True)
        representative = first[which.ravel()]
        left = table[np.arange(group.order), group.inverse[representative]]
        steps = [(modulus, coordinate[left]) for modulus, coordinate in bases]
        sources = _local(draft, action, known, residues, representative, bases, k)
        for j, (modulus, _) in enumerate(bases):
            name = f"residue {k}.{j}"
            # counting each value separately takes modulus^(modulus - 1) units to add up
            counter = spec.counts_by if modulus <= 3 else "average"
            known.append(count_block(draft, name, sources[j], modulus, counter))
            moduli.append(modulus)
        residues = np.column_stack([residues, *[value for _, value in steps]])
    for name, modulus, column in zip(known, moduli, residues.T, strict=True):
        draft.read(name, draft.sharpness * np.eye(modulus)[column])


def _local(
    draft: Draft,
    action: str,
    known: list[str],
    residues: Ints,
    representative: Ints,
    bases: list[tuple[int, Ints]],
    k: int,
) -> list[list[tuple[int, int]]]:
    """For each cyclic factor the (bit, value) pairs to count: of the action itself at first, later
    of registers that another block sets to f_t."""
    group = draft.group
    table = group.table.astype(np.int64)
    at = draft.layout.at
    if not known:
        every = range(group.order)
        return [[(at(action, a), int(value[a])) for a in every] for _, value in bases]
    targets = [draft.layout.add(f"factor {k}.{j}", m) for j, (m, _) in enumerate(bases)]
    units = Units()
    for now in np.unique(representative):
        for a in range(group.order):
            before = representative[table[now, group.inverse[a]]]
            factor = table[table[before, a], group.inverse[now]]
            bits = [at(name, int(r)) for name, r in zip(known, residues[now], strict=True)]
            writes = [
                (at(target, int(value[factor])), 1.0)
                for target, (_, value) in zip(targets, bases, strict=True)
            ]
            units.when([*bits, at(action, a)], writes)
    draft.blocks.append(Block(f"factor {k}", units=units))
    return [
        [(at(target, i), i) for i in range(modulus)]
        for target, (modulus, _) in zip(targets, bases, strict=True)
    ]


def _abelian_basis(table: Ints, whole: Ints, kernel: Ints) -> list[tuple[int, Ints]]:
    """Cyclic factors of whole / kernel: for each its order and [group order] the coordinate of
    every element of `whole` (others 0). Elements of largest order are split off first."""
    coset = np.full(len(table), -1)
    for element in whole:
        if coset[element] < 0:
            coset[table[kernel, element]] = element
    names = np.unique(coset[whole])
    size = len(names)

    def powers(x: int) -> list[int]:
        cycle, power = [int(coset[kernel[0]])], x
        while int(coset[power]) != cycle[0]:
            cycle.append(int(coset[power]))
            power = int(table[power, x])
        return cycle

    cycles = sorted((powers(int(x)) for x in names), key=len, reverse=True)
    chosen: list[list[int]] = []
    spanned = {int(coset[kernel[0]])}
    for cycle in cycles:
        if len(cycle) > 1 and not spanned & set(cycle[1:]):
            chosen.append(cycle)
            spanned = {int(coset[table[a, b]]) for a in spanned for b in cycle}
        if len(spanned) == size:
            break
    assert len(spanned) == size
    coordinates = [np.zeros(len(table), dtype=np.int64) for _ in chosen]
    for exponents in product(*[range(len(cycle)) for cycle in chosen]):
        element = int(kernel[0])
        for exponent, cycle in zip(exponents, chosen, strict=True):
            element = int(table[element, cycle[exponent]])
        for exponent, coordinate in zip(exponents, coordinates, strict=True):
            coordinate[coset == coset[element]] = exponent
    return [(len(cycle), c) for cycle, c in zip(chosen, coordinates, strict=True)]
