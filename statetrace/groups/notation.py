"""The two readings of a one-line label such as 42315 in the paper.

- "moves" (section 2.2 and Figure 1, the default): object i moves to position a[i]. Then 42315
  followed by 12534 is 32514, and ABCDE becomes DBAEC.
- "receives" (the natural-language appendix and the published code): position j receives the
  object at position a[j]. Then 312 is "rotate the last item to the front", and 132, 312, 213
  lead back to 123.

The same label names inverse movements in the two readings, so label -> label of the inverse is
an isomorphism between the two groups and neither is more correct; but no single reading gives
both of the paper's worked examples. In tables: one is the transpose of the other.

Cost: S7's table of 25 million entries takes about a quarter of a second; it is built in slices, so
memory stays near the size of the result.
Caveat: labels have one digit per position, which is enough for S7.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError

NOTATIONS = ("moves", "receives")

_SLICE = 256  # rows of the table computed at once

T = TypeVar("T")


def check_notation(notation: str) -> None:
    if notation not in NOTATIONS:
        raise StatetraceError(
            f"unknown notation {notation!r}; use 'moves' (object i moves to position a[i]) "
            "or 'receives' (position j receives object a[j])"
        )


def arrange(label: str, objects: Sequence[T], notation: str = "moves") -> list[T]:
    """The objects after the movement that the label stands for."""
    check_notation(notation)
    one_line = "".join(str(i + 1) for i in range(len(objects)))
    if sorted(label) != sorted(one_line):
        raise StatetraceError(
            f"{label!r} does not arrange {len(objects)} objects; use each digit of "
            f"{one_line!r} exactly once"
        )
    sources = [int(digit) - 1 for digit in label]
    if notation == "moves":
        sources = [label.index(digit) for digit in one_line]
    return [objects[source] for source in sources]


def all_permutations(n: int) -> NDArray[np.uint8]:
    """Every permutation of 0..n-1, one per row, in lexicographic order: [n!, n]."""
    return np.array(list(permutations(range(n))), dtype=np.uint8).reshape(-1, n)


def even_permutations(n: int) -> NDArray[np.uint8]:
    """Those with an even number of inversions, in the same order: [max(1, n!/2), n]."""
    every = all_permutations(n)
    inversions = np.zeros(len(every), dtype=np.int64)
    for i in range(n):
        inversions += (every[:, i : i + 1] > every[:, i + 1 :]).sum(axis=1)
    return every[inversions % 2 == 0]


def one_line_labels(rows: NDArray[np.uint8]) -> tuple[str, ...]:
    return tuple("".join(str(digit + 1) for digit in row) for row in rows.tolist())


def permutation_table(rows: NDArray[np.uint8], notation: str) -> NDArray[Any]:
    """The Cayley table of a set of permutations [N, n] closed under composition: [N, N].

    With "moves", a then b sends i to b[a[i]]. Read as a base-n number, that row of digits is
    sum_i w[i] b[a[i]] = sum_j w[a^-1[j]] b[j], a matrix product of a-dependent weights with b:
    far cheaper than composing 25 million pairs one by one.
    """
    count, n = rows.shape
    place = n ** np.arange(n)
    weights = place[np.argsort(rows, axis=1)].astype(np.float64)  # [N, n]
    digits = rows.astype(np.float64)  # exact: codes stay below 7**7
    index_of_code = np.zeros(n**n, dtype=np.min_scalar_type(count - 1))
    index_of_code[rows.astype(np.int64) @ place] = np.arange(count)
    table = np.empty((count, count), dtype=index_of_code.dtype)
    for start in range(0, count, _SLICE):
        codes = weights[start : start + _SLICE] @ digits.T
        table[start : start + _SLICE] = index_of_code[codes.astype(np.int32)]
    # "receives" composes the other way round: position j ends up with object a[b[j]].
    return table if notation == "moves" else np.ascontiguousarray(table.T)
