"""Finite groups as Cayley tables, their notations, structure and quotients; numpy only."""

from statetrace.groups.cayley import Group, Quotient
from statetrace.groups.construct import MAX_ORDER
from statetrace.groups.notation import NOTATIONS, arrange
from statetrace.groups.resolve import (
    GroupSpec,
    check_stored,
    group,
    group_name,
    store_group,
    stored_group,
)

__all__ = [
    "MAX_ORDER",
    "NOTATIONS",
    "Group",
    "GroupSpec",
    "Quotient",
    "arrange",
    "check_stored",
    "group",
    "group_name",
    "store_group",
    "stored_group",
]
