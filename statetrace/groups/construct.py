"""Tables of groups that have no name: from permutations or matrices that generate them.

Purpose: every element is a product of generators. They are listed shortest product first, and the
table is filled column by column: a then (b then g) is (a then b) then g.
Cost: order x generators products, and one look-up per entry of the table.
Caveat: matrices of real or complex numbers count as equal where they agree to six digits.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError

MAX_ORDER = 5040

LETTERS = "abcdfghijklmnopqrstuvwxyz"
"""Names of generators; e is the identity."""

Generators = Sequence[Any] | Mapping[str, Any]
Word = tuple[int, ...]  # numbers of generators
T = TypeVar("T")


class Labelled(NamedTuple):
    """A table with its labels, before it becomes a Group."""

    labels: tuple[str, ...]
    table: NDArray[Any]  # [order, order]


def generated_by_permutations(generators: Generators, notation: str, limit: int) -> Labelled:
    """Elements in lexicographic order, labelled in one-line notation (with dots beyond nine)."""
    rows = [_permutation(generator) for generator in _values(generators)]
    for row in rows:
        if len(row) != len(rows[0]):
            raise StatetraceError(
                f"the permutations {_one_line(rows[0])} and {_one_line(row)} move {len(rows[0])} "
                f"and {len(row)} objects: use permutations of the same number"
            )

    def then(a: Word, b: Word) -> Word:
        first, second = (a, b) if notation == "moves" else (b, a)
        return tuple(second[i] for i in first)

    elements, _, table = _close(tuple(range(len(rows[0]))), rows, then, lambda row: row, limit)
    order = sorted(range(len(elements)), key=lambda i: elements[i])
    place = np.argsort(order).astype(table.dtype)
    labels = tuple(_one_line(elements[i]) for i in order)
    return Labelled(labels, place[table[np.ix_(order, order)]])


def generated_by_matrices(generators: Generators, modulus: int | None, limit: int) -> Labelled:
    """Elements labelled by words in the generators: e, a, b, aa, ab, ..."""
    names = list(generators) if isinstance(generators, Mapping) else list(LETTERS)
    matrices = _matrices(_values(generators), modulus)
    exact = matrices[0].dtype.kind == "i"

    def then(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        product: NDArray[Any] = a @ b
        return product if modulus is None else product % modulus

    def key(matrix: NDArray[Any]) -> bytes:
        if exact:
            return matrix.tobytes()
        parts = np.stack([matrix.real, matrix.imag])
        # shifted, so that no simple fraction lies on the boundary between two keys
        return np.floor(parts * 1e6 + 0.318).astype(np.int64).tobytes()

    identity = np.eye(len(matrices[0]), dtype=matrices[0].dtype)
    _, words, table = _close(identity, matrices, then, key, limit)
    join = "" if all(len(name) == 1 for name in names) else "."
    return Labelled(tuple(join.join(names[i] for i in word) or "e" for word in words), table)


def _close(
    identity: T,
    generators: Sequence[T],
    then: Callable[[T, T], T],
    key: Callable[[T], Hashable],
    limit: int,
) -> tuple[list[T], list[Word], NDArray[Any]]:
    """All products of generators, each as its shortest word, and their table."""
    elements, words, index = [identity], [Word()], {key(identity): 0}
    parents = [0]
    followed: list[list[int]] = [[] for _ in generators]  # generator -> element -> element then it
    for number, element in enumerate(elements):  # grows while it is walked
        for generator, successors in zip(range(len(generators)), followed, strict=True):
            product = then(element, generators[generator])
            at = index.setdefault(key(product), len(elements))
            successors.append(at)
            if at == len(elements):
                if at == limit:
                    raise StatetraceError(
                        f"these {len(generators)} generators have more than {limit} products: "
                        f"use generators of a group of at most {limit} elements"
                    )
                elements.append(product)
                words.append((*words[number], generator))
                parents.append(number)
    columns = np.array(followed, dtype=np.min_scalar_type(len(elements) - 1))  # [generators, order]
    for generator, column in enumerate(columns):
        if len(np.unique(column)) < len(column):
            raise StatetraceError(
                f"the generator {np.asarray(generators[generator]).tolist()} has no inverse among "
                "the products: use invertible matrices"
            )
    table = np.empty((len(elements), len(elements)), dtype=columns.dtype)
    table[:, 0] = np.arange(len(elements))
    for number in range(1, len(elements)):
        table[:, number] = columns[words[number][-1]][table[:, parents[number]]]
    return elements, words, table


def _values(generators: Generators) -> list[Any]:
    values = list(generators.values() if isinstance(generators, Mapping) else generators)
    if not values or len(values) > len(LETTERS):
        raise StatetraceError(f"{len(values)} generators were given: use 1 to {len(LETTERS)}")
    return values


def _permutation(generator: Any) -> Word:
    """Of 0 .. n-1, from "213", (2, 1, 3) or (1, 0, 2)."""
    try:
        row = tuple(int(place) for place in generator)
    except (TypeError, ValueError):
        row = ()
    first = min(row, default=-1)
    if first not in (0, 1) or sorted(row) != list(range(first, len(row) + first)):
        raise StatetraceError(
            f"{generator!r} is not a permutation: use one-line notation with each number once, "
            "such as '213' or (2, 1, 3)"
        )
    return tuple(place - first for place in row)


def _one_line(row: Word) -> str:
    return ("" if len(row) < 10 else ".").join(str(place + 1) for place in row)


def _matrices(generators: list[Any], modulus: int | None) -> list[NDArray[Any]]:
    if modulus is not None and (not isinstance(modulus, int) or modulus < 2):
        raise StatetraceError(f"modulus {modulus!r} should be a whole number from 2 up")
    matrices = []
    for generator in generators:
        try:
            matrix = np.array(generator)
        except ValueError:  # rows of different lengths
            matrix = np.array(())
        sides = set(matrix.shape) if matrix.ndim == 2 else set()
        if len(sides) != 1 or matrix.dtype.kind not in "iufc" or matrix.shape[0] < 1:
            raise StatetraceError(f"{generator!r} is not a square matrix of numbers")
        if matrix.shape != np.shape(generators[0]):
            raise StatetraceError(
                f"generators of shape {np.shape(generators[0])} and {matrix.shape} cannot be "
                "multiplied: use square matrices of one size"
            )
        matrices.append(matrix)
    whole = all(matrix.dtype.kind in "iu" for matrix in matrices)
    if modulus is None:
        return [matrix.astype(np.int64 if whole else np.complex128) for matrix in matrices]
    if not whole:
        raise StatetraceError(f"matrices modulo {modulus} should have whole numbers as entries")
    return [matrix.astype(np.int64) % modulus for matrix in matrices]
