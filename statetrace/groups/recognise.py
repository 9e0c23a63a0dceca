"""Find the name of the group with a given table, for the names of quotients.

Abelian groups are named by their cyclic factors (Z6, Z2xZ4), others by S_n, A_n or D_n where one
of these fits; anything else has no name here. Where several names fit the first of Z, S, A, D is
taken: D3 is called S3 and D2 is called Z2xZ2.

Cost: one pass over the powers of all elements.
Caveat: direct products of non-abelian groups are not taken apart (S4xZ2 stays unnamed).
"""

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from math import factorial, lcm, prod

import numpy as np
from numpy.typing import NDArray

from statetrace.groups.structure import Table, element_orders, is_abelian


def recognise(table: Table) -> str | None:
    """The name of the group with this table, up to isomorphism."""
    orders = element_orders(table)
    if is_abelian(table):
        return "x".join(f"Z{n}" for n in abelian_invariants(orders)) or "Z1"
    # The order of a group and the orders of its elements single out S_n and A_n among all finite
    # groups (Bi 1990; Shi and Bi 1992); for n = 3 and 4 the lists of groups show it directly.
    census = Counter(orders.tolist())
    for n in range(3, 8):
        for family, even_only in (("S", False), ("A", True)):
            if census == _permutation_census(n, even_only):
                return f"{family}{n}"
    # A cyclic half, and outside it nothing but elements of order 2: they invert the cyclic half.
    half = len(table) // 2
    if census[half] and census[2] == half + (half % 2 == 0):
        return f"D{half}"
    return None


def abelian_invariants(orders: NDArray[np.int64]) -> tuple[int, ...]:
    """The cyclic orders d1 | d2 | ... of the abelian group with these element orders.

    In a product of cyclic p-groups, the number of elements whose order divides p^k is p to the
    sum of min(k, exponent); so the growth from k - 1 to k counts the factors of at least p^k.
    """
    columns = []
    for p in _prime_divisors(len(orders)):
        powers: list[int] = []  # of p, the largest first
        k, below = 1, 1
        while (at_most := int(np.count_nonzero(p**k % orders == 0))) > below:
            factors = round(np.log(at_most / below) / np.log(p))
            powers = [power * p for power in powers[:factors]] + powers[factors:]
            powers += [p] * (factors - len(powers))
            k, below = k + 1, at_most
        columns.append(powers)
    return tuple(prod(row) for row in zip_longest(*columns, fillvalue=1))[::-1]


def _prime_divisors(n: int) -> list[int]:
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]


def _permutation_census(n: int, even_only: bool) -> Counter[int]:
    """How many permutations of n things, or even ones, have each order."""
    census: Counter[int] = Counter()
    for cycles in _partitions(n, n):
        if not (even_only and (n - len(cycles)) % 2):
            repeats = prod(factorial(m) for m in Counter(cycles).values())
            census[lcm(*cycles)] += factorial(n) // (prod(cycles) * repeats)
    return census


def _partitions(n: int, largest: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
    for first in range(min(n, largest), 0, -1):
        for rest in _partitions(n - first, first):
            yield (first, *rest)
