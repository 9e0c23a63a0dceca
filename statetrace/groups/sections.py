"""The rest of an element beside its image in a quotient, by a complement of the kernel.

If the kernel N has a complement H (the extension splits), every element is n, then h, and also h,
then n', for one n, n' of N and one h of H. n (or n') is its rest, and an element with another image
and the same rest differs from it in the quotient alone. Which complement and which order a model
uses is for the model to show: S3 has three complements of its rotations, and six sections.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from statetrace.groups import structure
from statetrace.groups.cayley import Group, Quotient

MOST_LIFTS = 4096
"""Most candidates for the generators of a complement; larger groups count as not split."""


@dataclass(frozen=True)
class Section:
    """One way to change the image of an element and keep its rest.

    Attributes:
        name: such as "rest then 213" or "213 then rest"; the elements of the complement.
        change: [order, images], the element with that image and the same rest.
    """

    name: str
    change: NDArray[np.int64]

    @property
    def rest(self) -> NDArray[np.int64]:
        """[order]: elements with equal rests have equal numbers."""
        return self.change[:, 0]


def sections(group: Group, quotient: Quotient) -> tuple[Section, ...]:
    """All different ones; none if the kernel has no complement."""
    table, inverse = group.table.astype(np.int64), group.inverse.astype(np.int64)
    image = quotient.map.astype(np.int64)
    distinct: dict[bytes, Section] = {}
    for members in _complements(group, quotient):
        lift = np.empty(len(members), dtype=np.int64)  # image -> its member of the complement
        lift[image[members]] = members
        names = " ".join(group.labels[h] for h in members if h != group.identity)
        undo = inverse[lift[image]]
        first = table[table[np.arange(group.order), undo]][:, lift]
        second = table[lift][:, table[undo, np.arange(group.order)]].T
        for name, change in ((f"rest then {names}", first), (f"{names} then rest", second)):
            distinct.setdefault(change.tobytes(), Section(name, change))
    return tuple(distinct.values())


def _complements(group: Group, quotient: Quotient) -> list[NDArray[np.int64]]:
    """Members of each subgroup that the quotient maps one to one onto its image."""
    size = quotient.image.order
    _, generators = structure.generate(quotient.image.table, np.arange(size))
    lifts = [np.flatnonzero(quotient.map == generator) for generator in generators]
    if prod(map(len, lifts)) > MOST_LIFTS:
        return []
    subgroups = (structure.generate(group.table, np.array(lift))[0] for lift in product(*lifts))
    masks = {mask.tobytes(): mask for mask in subgroups if mask.sum() == size}
    return [np.flatnonzero(mask) for mask in masks.values()]
