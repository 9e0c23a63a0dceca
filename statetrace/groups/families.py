"""Named groups, such as "S5" or "A4xZ5".

| name | elements, in this order                                         | accepted  |
|------|-----------------------------------------------------------------|-----------|
| S_n  | one-line labels in lexicographic order: 123, 132, 213, ...      | 1 to 7    |
| A_n  | the even ones, in the same order (A1 and A2 are trivial)        | 1 to 7    |
| Z_n  | 0, 1, ..., n-1 under addition                                   | 1 to 5040 |
| D_n  | order 2n, acting on positions x of a ring of n: rotations r0,   | 1 to 2520 |
|      | r1, ... (x -> x+k), then reflections s0, s1, ... (x -> k-x);    |           |
|      | D1 is Z2 and D2 is Z2xZ2                                        |           |
| AxB  | labels joined by a colon (213:1), the last factor fastest       | 5040 in all |

Names may be typed in lower case; `Group.name` has the canonical spelling. No label contains a
space, a comma or a character that a shell would interpret, and the identity is always element 0.

Cost: S7 takes about 0.3 s and 51 MB; everything up to a few hundred elements is instant. Groups
are cached.
"""

import re
from functools import lru_cache, reduce
from math import factorial
from typing import NamedTuple

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.groups import structure
from statetrace.groups.cayley import Group
from statetrace.groups.construct import MAX_ORDER, Labelled, generated_by_permutations

_FACTOR = re.compile(r"([SAZD])([1-9][0-9]*)", re.IGNORECASE | re.ASCII)


class Factor(NamedTuple):
    """One family letter and its n."""

    family: str
    n: int

    @property
    def order(self) -> int:
        """The number of elements, or any number above MAX_ORDER where there are more."""
        n = min(self.n, MAX_ORDER + 1)
        if self.family in "SA":
            permutations = factorial(min(n, 10))
            return permutations if self.family == "S" else max(1, permutations // 2)
        return 2 * n if self.family == "D" else n


def is_named(name: str) -> bool:
    """Whether it is written like a name of this module; the group may still be too large."""
    return all(_FACTOR.fullmatch(part) for part in re.split("[xX]", name))


def named_group(name: str, notation: str = "moves") -> Group:
    """The group of a name for which `is_named` holds."""
    matches = [_FACTOR.fullmatch(part) for part in re.split("[xX]", name)]
    # seven digits are too large already, and Python refuses to read very long numbers
    factors = tuple(Factor(m[1].upper(), int(m[2][:7])) for m in matches if m)
    order = 1
    for factor in factors:
        order *= factor.order
        if order > MAX_ORDER:
            raise StatetraceError(
                f"the group {name!r} is too large; up to {MAX_ORDER} elements are accepted, "
                f"so Sn and An with n up to 7, Zn up to Z{MAX_ORDER}, Dn up to "
                f"D{MAX_ORDER // 2}, and products of at most {MAX_ORDER} elements"
            )
    return _build("x".join(f"{factor.family}{factor.n}" for factor in factors), factors, notation)


def direct_product(left: Group, right: Group) -> Group:
    """Pairs of elements, labelled with a colon between (213:1), the right one fastest."""
    labelled = _direct_product(left, right)
    parity = structure.unique_parity(labelled.table)
    return Group(f"{left.name}x{right.name}", left.notation, *labelled, parity, trusted=True)


# Few, because one large group weighs 51 MB and its quotients may weigh as much again.
@lru_cache(maxsize=16)
def _build(name: str, factors: tuple[Factor, ...], notation: str) -> Group:
    labels, table = reduce(_direct_product, (_family(factor, notation) for factor in factors))
    if len(factors) == 1 and factors[0].family == "D":
        reflections = (np.arange(len(labels)) >= factors[0].n).astype(np.int8)
        return Group(name, notation, labels, table, reflections, trusted=True)
    parity = structure.unique_parity(table)
    return Group(name, notation, labels, table, parity, trusted=True)


def _family(factor: Factor, notation: str) -> Labelled:
    if factor.family == "Z":
        return _cyclic(factor.n)
    if factor.family == "D":
        return _dihedral(factor.n)
    n, row = factor.n, list(range(1, factor.n + 1))
    # a swap and the cycle of all generate S_n, cycles of three generate A_n
    spans = [(0, 2), (0, n)] if factor.family == "S" else [(i, i + 3) for i in range(n - 2)]
    cycles = [row[:a] + row[a + 1 : b] + row[a : a + 1] + row[b:] for a, b in spans]
    return generated_by_permutations([row, *cycles], notation, MAX_ORDER)


def _cyclic(n: int) -> Labelled:
    k = np.arange(n, dtype=np.uint16)
    table = np.add.outer(k, k)
    table %= n
    return Labelled(tuple(map(str, range(n))), table.astype(np.min_scalar_type(n - 1)))


def _dihedral(n: int) -> Labelled:
    k = np.arange(n, dtype=np.int16)
    add = np.add.outer(k, k) % n  # [i, j] -> i + j
    sub = np.subtract.outer(k, k).T % n  # [i, j] -> j - i
    # x -> x+i then x -> j-x is x -> (j-i)-x, and so on for the four blocks.
    table = np.block([[add, sub + n], [add + n, sub]])
    # Rows are "a then b": a rotation (top) or reflection (bottom) followed by a rotation (left)
    # or a reflection (right).
    labels = tuple(f"r{i}" for i in range(n)) + tuple(f"s{i}" for i in range(n))
    return Labelled(labels, table.astype(np.min_scalar_type(2 * n - 1)))


def _direct_product(left: Labelled | Group, right: Labelled | Group) -> Labelled:
    size = len(right.labels)
    order = len(left.labels) * size
    dtype = np.min_scalar_type(order - 1)
    # Widened before multiplying (the product of two uint8 need not fit), narrowed before adding.
    high = (left.table.astype(np.int64) * size).astype(dtype)
    table = high[:, None, :, None] + right.table.astype(dtype)[None, :, None, :]
    labels = tuple(f"{a}:{b}" for a in left.labels for b in right.labels)
    return Labelled(labels, table.reshape(order, order))
