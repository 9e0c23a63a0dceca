"""The groups the programs are tried on: every family, a group without a name, at most 120 elements
each."""

from statetrace.groups import Group
from statetrace.mechanisms.algorithms import ALGORITHMS, FURTHER, Program, algorithm
from tests.groups.cases import named

GROUPS = [
    *(f"S{n}" for n in range(1, 6)),
    *(f"A{n}" for n in range(3, 6)),
    *(f"Z{n}" for n in (*range(1, 13), 120)),
    *(f"D{n}" for n in (*range(1, 7), 60)),
    *("Z2xZ3", "Z2xZ4", "S3xZ2", "S3xZ5", "D4xZ3", "A4xZ5", "S4xZ5", "A5xZ2", "S3xS3", "Q8"),
]


def exists(name: str, group: Group) -> bool:
    """By the textbook, not by asking the program."""
    if name == "parallel":
        return group.is_solvable()
    if name == "composed-quotient":
        return len(group.normal_subgroups()) > 2
    return name != "parity-associative" or group.parity is not None


NAMES = (*ALGORITHMS, *FURTHER)
PROGRAMS = [(name, g) for g in GROUPS for name in NAMES if exists(name, named(g))]
NO_PROGRAMS = [(name, g) for g in GROUPS for name in NAMES if not exists(name, named(g))]


def program(name: str, group: str) -> Program:
    return algorithm(name, named(group))
