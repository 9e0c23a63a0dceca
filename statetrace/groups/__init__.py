"""Finite groups as Cayley tables, their notations, structure and quotients; numpy only."""

from statetrace.groups.cayley import Group, Quotient
from statetrace.groups.families import MAX_ORDER, group
from statetrace.groups.notation import NOTATIONS, arrange

__all__ = ["MAX_ORDER", "NOTATIONS", "Group", "Quotient", "arrange", "group"]
