"""Elements of a group as people write them: labels, several separated by commas, or indices."""

from __future__ import annotations

from collections.abc import Iterable
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.groups.cayley import Group

Element = int | str
Elements = str | Iterable[Element]


def indices(group: Group, elements: Elements) -> list[int]:
    """Refuses unknown elements."""
    if isinstance(elements, str):
        elements = elements.split(",") if elements else []
    if not isinstance(elements, Iterable):
        raise StatetraceError(
            f"{elements!r} is not a sequence of elements of {group.name}; use a list of numbers "
            f"or labels, such as [{group.labels[-1]!r}]"
        )
    return [_index(group, element) for element in elements]


def _index(group: Group, element: Element) -> int:
    if isinstance(element, str):
        return group.index(element)
    # checked here, because numpy reads -1 as the last element
    if not isinstance(element, int | np.integer) or not 0 <= element < group.order:
        raise StatetraceError(
            f"{group.name} has no element number {element!r}; use 0 to {group.order - 1}, "
            f"or a label such as {group.labels[-1]!r}"
        )
    return int(element)


def chosen_actions(group: Group, kind: Elements) -> tuple[int, ...]:
    """See `Group.generators`."""
    if isinstance(kind, str) and kind == "all":
        return tuple(range(group.order))
    if isinstance(kind, str) and kind == "transpositions":
        return _transpositions(group)
    try:
        chosen = indices(group, kind)
    except StatetraceError as error:
        raise StatetraceError(
            f"{error}; 'all' and 'transpositions' (Sn only) are accepted as well"
        ) from None
    if not chosen or len(set(chosen)) < len(chosen):
        raise StatetraceError(
            f"{kind!r} is not a choice of actions from {group.name}; use 'all', "
            "'transpositions' (Sn only) or different labels separated by commas, at least one"
        )
    return tuple(chosen)


def permuted_objects(group: Group) -> int:
    """How many objects in a row the labels permute, in one-line notation; 0 if they are anything
    else, such as the cosets of an image called S3."""
    identity = group.labels[group.identity]
    one_line = all(sorted(label) == list(identity) for label in group.labels)
    return len(identity) if one_line and "1234567".startswith(identity) else 0


def _transpositions(group: Group) -> tuple[int, ...]:
    rest = group.labels[group.identity]
    if group.order != factorial(permuted_objects(group)) or group.order < 2:
        raise StatetraceError(
            f"{group.name} has no 'transpositions'; use Sn with n from 2 to 7, or 'all', "
            "or labels separated by commas"
        )
    moved = [sum(a != b for a, b in zip(rest, label, strict=True)) for label in group.labels]
    return tuple(i for i, number in enumerate(moved) if number == 2)
