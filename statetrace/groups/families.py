"""From a name such as "S5" or "A4xZ5" to a Group.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups import structure
from statetrace.groups.cayley import Group
from statetrace.groups.notation import (
    all_permutations,
    check_notation,
    even_permutations,
    one_line_labels,
    permutation_table,
)

MAX_ORDER = 5040

_FACTOR = re.compile(r"([SAZD])([1-9][0-9]*)", re.IGNORECASE | re.ASCII)


class Labelled(NamedTuple):
    """A table with its labels: what a family builds before it is wrapped as a Group."""

    labels: tuple[str, ...]
    table: NDArray[Any]  # [order, order]


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


def group(name: str, notation: str = "moves") -> Group:
    """The group of that name; `notation` (see notation.py) says how the one-line labels of
    S_n and A_n are read, alone or in a product, and means nothing to the other families."""
    check_notation(notation)
    factors = _parse(name)
    return _build("x".join(f"{factor.family}{factor.n}" for factor in factors), factors, notation)


def _parse(name: str) -> tuple[Factor, ...]:
    matches = [_FACTOR.fullmatch(part) for part in re.split("[xX]", name)]
    if not all(matches):
        raise StatetraceError(
            f"unknown group {name!r}: use Sn, An, Zn or Dn with n at least 1, or several of them "
            "joined by 'x', for example 'S5', 'A5', 'Z12', 'D6' or 'A4xZ5'"
        )
    # Python refuses to read absurdly long numbers; seven digits are too large for us already.
    factors = tuple(Factor(m[1].upper(), int(m[2][:7])) for m in matches if m)
    order = 1
    for factor in factors:
        order *= factor.order
        if order > MAX_ORDER:
            raise StatetraceError(
                f"the group {name!r} is too large: up to {MAX_ORDER} elements are accepted, "
                f"so Sn and An with n up to 7, Zn up to Z{MAX_ORDER}, Dn up to "
                f"D{MAX_ORDER // 2}, and products of at most {MAX_ORDER} elements"
            )
    return factors


# Few, because one large group weighs 51 MB and its quotients may weigh as much again.
@lru_cache(maxsize=16)
def _build(name: str, factors: tuple[Factor, ...], notation: str) -> Group:
    labels, table = reduce(_direct_product, (_family(factor, notation) for factor in factors))
    if len(factors) == 1 and factors[0].family == "D":
        parity = (np.arange(len(labels)) >= factors[0].n).astype(np.int8)
        return Group(name, notation, labels, table, parity)
    return Group(name, notation, labels, table, structure.unique_parity(table))


def _family(factor: Factor, notation: str) -> Labelled:
    if factor.family == "Z":
        return _cyclic(factor.n)
    if factor.family == "D":
        return _dihedral(factor.n)
    rows = (all_permutations if factor.family == "S" else even_permutations)(factor.n)
    return Labelled(one_line_labels(rows), permutation_table(rows, notation))


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


def _direct_product(left: Labelled, right: Labelled) -> Labelled:
    size = len(right.labels)
    order = len(left.labels) * size
    dtype = np.min_scalar_type(order - 1)
    # Widened before multiplying (the product of two uint8 need not fit), narrowed before adding.
    high = (left.table.astype(np.int64) * size).astype(dtype)
    table = high[:, None, :, None] + right.table.astype(dtype)[None, :, None, :]
    labels = tuple(f"{a}:{b}" for a in left.labels for b in right.labels)
    return Labelled(labels, table.reshape(order, order))
