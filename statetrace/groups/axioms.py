"""Check that a table defines a group; an error quotes the entries that break an axiom.

Cost: a few passes over the table per generator. Associativity is checked by Light's test: the
elements g with (x then g) then y = x then (g then y) for all x and y are closed under products, so
the generators are enough, and a group of n elements has at most log2(n) of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups.construct import MAX_ORDER


def check_group(name: str, labels: Sequence[str], table: NDArray[Any]) -> None:
    """Refuse a table [order, order] that breaks closure, identity, inverses or associativity."""

    def refuse(reason: str) -> StatetraceError:
        return StatetraceError(f"the table of {name!r} does not define a group: {reason}")

    n = len(labels)
    outside = np.argwhere((table < 0) | (table >= n))
    if len(outside):
        a, b = outside[0]
        raise refuse(
            f"{labels[a]} then {labels[b]} is {table[a, b]}, which is not an element; "
            f"use 0 to {n - 1}"
        )
    table = table.astype(np.min_scalar_type(n - 1))
    everything = np.arange(n)
    fixed = (table == everything[None]) & (everything[None] == table.T)  # [e, x]
    e = int(fixed.sum(axis=1).argmax())
    if not fixed[e].all():
        x = int(fixed[e].argmin())
        raise refuse(
            f"no element is the identity: the nearest is {labels[e]}, but {labels[e]} then "
            f"{labels[x]} is {labels[table[e, x]]} and {labels[x]} then {labels[e]} is "
            f"{labels[table[x, e]]}"
        )
    inverted = ((table == e) & (e == table.T)).any(axis=1)
    if not inverted.all():
        a = int(inverted.argmin())
        raise refuse(
            f"{labels[a]} has no inverse: its row is {listed([labels[x] for x in table[a]])} and "
            f"the identity is {labels[e]}"
        )
    triple = _not_associative(table, e)
    if triple is not None:
        a, b, c = triple
        raise refuse(
            f"it is not associative: ({labels[a]} then {labels[b]}) then {labels[c]} is "
            f"{labels[table[table[a, b], c]]}, but {labels[a]} then ({labels[b]} then {labels[c]}) "
            f"is {labels[table[a, table[b, c]]]}"
        )


def check_parity(name: str, table: NDArray[Any], parity: NDArray[Any]) -> None:
    """Refuse a parity [order] that is not a homomorphism onto 0 and 1."""
    if (
        parity.shape != (len(table),)
        or sorted(set(parity.tolist())) != [0, 1]
        or (parity[table] != parity[:, None] ^ parity[None]).any()
    ):
        raise StatetraceError(
            f"the parity of {name!r}, {parity.tolist()[:8]}, is not a parity; use a 0 or a 1 for "
            "every element, so that the parity of a product is the sum of the two, or leave it out"
        )


def _not_associative(table: NDArray[Any], identity: int) -> tuple[int, int, int] | None:
    """The first (a, b, c) that associates in two ways, b among a few generators."""
    reached = np.arange(len(table)) == identity
    generators: list[int] = []
    while not reached.all():
        generator = int(reached.argmin())
        left, right = table[table[:, generator]], table[:, table[generator]]  # [x, y]
        if (left != right).any():
            a, c = np.argwhere(left != right)[0].tolist()
            return a, generator, c
        generators.append(generator)
        queue = np.flatnonzero(reached).tolist()
        for element in queue:  # grows while it is walked
            for product in table[element, generators].tolist():
                if not reached[product]:
                    reached[product] = True
                    queue.append(product)
    return None


def check_labels(name: str, labels: tuple[str, ...]) -> None:
    if not 1 <= len(labels) <= MAX_ORDER:
        raise StatetraceError(
            f"the group {name!r} has {len(labels)} elements; 1 to {MAX_ORDER} are accepted"
        )
    for label in labels:
        if not label or "," in label or label.split() != [label]:
            raise StatetraceError(
                f"{label!r} cannot be a label of {name!r}; use text without spaces and commas"
            )


def table_entries(name: str, labels: tuple[str, ...], table: Any) -> NDArray[Any]:
    """A table of element numbers or labels as an array of numbers [order, order]."""
    try:
        given = np.array(table)
    except ValueError:  # rows of different lengths
        given = np.array(())
    if given.shape != (len(labels), len(labels)):
        rows = f"{len(table)} rows of {sorted({len(row) for row in table})}"
        raise StatetraceError(
            f"the table of {name!r} has {rows} entries and there are {len(labels)} labels; use one "
            "row and one column for each label"
        )
    if given.dtype.kind in "US":
        index = {label: i for i, label in enumerate(labels)}
        unknown = next((entry for entry in given.ravel().tolist() if entry not in index), None)
        if unknown is not None:
            raise StatetraceError(
                f"the table of {name!r} contains {unknown!r}, which is not a label; the labels are "
                f"{listed(labels)}"
            )
        given = np.array([[index[entry] for entry in row] for row in given.tolist()])
    if given.dtype.kind not in "iu":
        raise StatetraceError(
            f"the table of {name!r} contains {given.dtype} entries; use element numbers or labels"
        )
    check_group(name, labels, given)
    return given.astype(np.min_scalar_type(len(labels) - 1))


def listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
