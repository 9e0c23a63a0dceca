"""Group elements as movements of a few objects in a row, which show the permutation."""

from __future__ import annotations

import re

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.tasks import phrases
from statetrace.tasks.phrases import Movement

MOST = 7
"""Objects that colours can distinguish."""


def movements(group: Group) -> tuple[Movement, ...] | None:
    """For each element, where the object at each position goes, positions from 0; None where the
    elements do not move at most MOST objects.

    Sn and An move objects by their labels (in the group's notation); Zn turns a ring of n, and Dn
    turns it or flips it over.
    """
    ring = re.fullmatch(r"([ZD])(\d+)", group.name)
    if ring:
        return _ring(int(ring[2]), flips=ring[1] == "D")
    try:
        phrases.check_permutations(group)
    except StatetraceError:
        return None
    if group.order == 1:
        return None
    return tuple(phrases.movement(label, group.notation) for label in group.labels)


def why_not(group: Group) -> str:
    """A sentence on why there are no movements."""
    few = ", ".join(group.labels[:3])
    return (
        f"the elements of {group.name} ({few}, ...) do not rearrange up to {MOST} objects; "
        "click or type them"
    )


def _ring(n: int, flips: bool) -> tuple[Movement, ...] | None:
    if not (3 if flips else 2) <= n <= MOST:
        return None
    turned = [tuple((x + k) % n for x in range(n)) for k in range(n)]
    flipped = [tuple((k - x) % n for x in range(n)) for k in range(n)]
    return tuple(turned + flipped if flips else turned)
