"""How group elements are encoded in the residual stream, and how two of them are multiplied.

A code is a vector of zeros and ones for each element, all with equally many ones, so that a
register has the same norm whichever element it holds, and LayerNorm stays linear. Multiplication is
a sum of products of two bits, one rectified unit each: `relu(x + y - 1)`.

- `permutation_code`: the permutation matrix, n^2 bits and n^3 products. Even and odd matrices have
  the same mean, so no linear probe can read parity from it.
- `one_hot_code`: one bit per element, |G|^2 products; every function of the element is linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.groups.elements import permuted_objects

Array = NDArray[np.float64]

LARGEST_ONE_HOT = 24
"""Most elements for a one-hot code, which has the square of that many products."""

LARGEST_PERMUTED = 5
"""Most objects for a permutation code; its check multiplies all pairs of matrices, and those of S7
would fill 10 GB."""


@dataclass(frozen=True)
class Code:
    """An element -> bits code with its multiplication.

    Attributes:
        bits: [order, size] of 0 and 1, equally many ones in each row.
        left, right, result: [products] each; bit `left` of a and bit `right` of b together give
            bit `result` of "a then b".
    """

    bits: Array
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    result: NDArray[np.int64]

    @property
    def size(self) -> int:
        return int(self.bits.shape[1])

    def between(self, before: int, after: int, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """[size]: the bit of "before, then g, then after" that equals each bit of g."""
        moved = table[table[before], after]  # g -> before g after
        # a bit is identified by the set of elements that have it
        columns = {self.bits[:, i].tobytes(): i for i in range(self.size)}
        inverse = np.argsort(moved)
        return np.array([columns[self.bits[inverse, i].tobytes()] for i in range(self.size)])


def one_hot_code(group: Group) -> Code:
    """A bit per element."""
    order = group.order
    if order > LARGEST_ONE_HOT:
        raise StatetraceError(
            f"{group.name} has {order} elements, too many for a code of one bit per element "
            f"(at most {LARGEST_ONE_HOT}); Sn and An with n up to {LARGEST_PERMUTED} have a "
            "permutation code"
        )
    left, right = np.divmod(np.arange(order * order), order)
    return Code(np.eye(order), left, right, group.table.astype(np.int64)[left, right])


def permutation_code(group: Group) -> Code | None:
    """The permutation matrix of each element, row by row; None if the labels are not permutations
    of few enough objects in one-line notation."""
    n = permuted_objects(group)
    if not 1 <= n <= LARGEST_PERMUTED:
        return None
    places = np.array([[int(digit) - 1 for digit in label] for label in group.labels])
    matrices = np.eye(n)[places]
    for candidate in (matrices, matrices.transpose(0, 2, 1)):  # one for each notation
        products = np.einsum("aij,bjk->abik", candidate, candidate)
        if np.array_equal(products, candidate[group.table]):  # M[a] @ M[b] = M[a then b]
            i, j, k = (axis.ravel() for axis in np.indices((n, n, n)))
            bits = np.ascontiguousarray(candidate).reshape(group.order, n * n)
            return Code(bits, i * n + j, j * n + k, i * n + k)
    return None


def code_for(group: Group, hides_parity: bool = False) -> Code:
    """The permutation code if the group has one, else a bit per element."""
    code = permutation_code(group) if group.order > 2 else None
    if code is not None:
        return code
    if hides_parity and group.parity is not None:
        raise StatetraceError(
            f"parity cannot be hidden in {group.name}, whose elements are not written as "
            "permutations: its code has one bit per element, from which everything is readable; "
            "use parity 'linear'"
        )
    return one_hot_code(group)


def margin(bits: Array) -> float:
    """By how much the agreement of a row with itself exceeds that with any other row."""
    agreement = bits @ bits.T
    own = np.diag(agreement).copy()
    np.fill_diagonal(agreement, -np.inf)
    return float((own - agreement.max(axis=1)).min()) if len(bits) > 1 else 1.0
