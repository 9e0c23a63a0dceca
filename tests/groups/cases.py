"""The shared table: groups and what is known about them from textbooks."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

from statetrace.groups import Group, group
from statetrace.groups.structure import unique_parity


@dataclass(frozen=True)
class Case:
    name: str
    order: int
    classes: int
    normal: int  # subgroups, the trivial one and the whole group included
    abelian: tuple[int, ...]  # invariants of the abelianization
    derived: tuple[int, ...]  # orders along the derived series
    quotients: tuple[str, ...]
    parity: bool

    @property
    def group(self) -> Group:
        return named(self.name)


CASES = [
    Case("S1", 1, 1, 1, (), (1,), (), False),
    Case("S2", 2, 2, 2, (2,), (2, 1), (), True),
    Case("S3", 6, 3, 3, (2,), (6, 3, 1), ("parity",), True),
    Case("S4", 24, 5, 4, (2,), (24, 12, 4, 1), ("parity", "S3"), True),
    Case("S5", 120, 7, 3, (2,), (120, 60), ("parity",), True),
    Case("S6", 720, 11, 3, (2,), (720, 360), ("parity",), True),
    Case("A1", 1, 1, 1, (), (1,), (), False),
    Case("A2", 1, 1, 1, (), (1,), (), False),
    Case("A3", 3, 3, 2, (3,), (3, 1), (), False),
    Case("A4", 12, 4, 3, (3,), (12, 4, 1), ("Z3",), False),
    Case("A5", 60, 5, 2, (), (60,), (), False),
    Case("A6", 360, 7, 2, (), (360,), (), False),
    Case("Z1", 1, 1, 1, (), (1,), (), False),
    Case("Z2", 2, 2, 2, (2,), (2, 1), (), True),
    Case("Z7", 7, 7, 2, (7,), (7, 1), (), False),
    Case("Z9", 9, 9, 3, (9,), (9, 1), ("Z3",), False),
    Case("Z12", 12, 12, 6, (12,), (12, 1), ("parity", "Z3", "Z4", "Z6"), True),
    Case("D1", 2, 2, 2, (2,), (2, 1), (), True),
    Case("D2", 4, 4, 5, (2, 2), (4, 1), ("parity", "Z2.1", "Z2.2"), True),
    Case("D3", 6, 3, 3, (2,), (6, 3, 1), ("parity",), True),
    Case("D4", 8, 5, 6, (2, 2), (8, 2, 1), ("parity", "Z2.1", "Z2.2", "Z2xZ2"), True),
    Case("D5", 10, 4, 3, (2,), (10, 5, 1), ("parity",), True),
    Case("D6", 12, 6, 7, (2, 2), (12, 3, 1), ("parity", "Z2.1", "Z2.2", "Z2xZ2", "S3"), True),
    Case("A4xZ5", 60, 20, 6, (15,), (60, 4, 1), ("Z3", "Z5", "A4", "Z15"), False),
    Case("S3xZ5", 30, 15, 6, (10,), (30, 3, 1), ("parity", "Z5", "S3", "Z10"), True),
    Case("S3xZ2", 12, 6, 7, (2, 2), (12, 3, 1), ("Z2.1", "Z2.2", "Z2.3", "Z2xZ2", "S3"), False),
    Case("D4xZ3", 24, 15, 12, (2, 6), (24, 2, 1), (
        "Z2.1", "Z2.2", "Z2.3", "Z3", "Z2xZ2", "Z6.1", "Z6.2", "Z6.3", "D4", "Z2xZ6",
    ), False),
    Case("A5xZ4", 240, 20, 6, (4,), (240, 60), ("parity", "Z4", "A5", "order-120"), True),
    Case("Z2xZ4", 8, 8, 8, (2, 4), (8, 1), (
        "Z2.1", "Z2.2", "Z2.3", "Z2xZ2", "Z4.1", "Z4.2",
    ), False),
    Case("Q8", 8, 5, 6, (2, 2), (8, 2, 1), ("Z2.1", "Z2.2", "Z2.3", "Z2xZ2"), False),
]  # fmt: skip

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
cases = st.sampled_from(CASES)
notations = st.sampled_from(["moves", "receives"])


def named(name: str) -> Group:
    return quaternions() if name == "Q8" else group(name)


@cache
def quaternions() -> Group:
    """A group that has no name here: 1, i, j, k and their negatives, as 2x2 matrices."""
    one, i, j = np.eye(2), np.diag([1j, -1j]), np.array([[0, 1], [-1, 0]])
    units = [sign * unit for sign in (1, -1) for unit in (one, i, j, i @ j)]
    table = [[next(n for n, u in enumerate(units) if np.allclose(u, a @ b)) for b in units]
             for a in units]  # fmt: skip
    array = np.array(table, dtype=np.uint8)
    labels = ("1", "i", "j", "k", "-1", "-i", "-j", "-k")
    return Group("Q8", "moves", labels, array, unique_parity(array))


@st.composite
def small_names(draw: st.DrawFn) -> str:
    """Names of groups and products with at most 144 elements."""
    factor = st.sampled_from(
        ["S1", "S3", "S4", "A3", "A4", "Z1", "Z2", "Z4", "Z6", "Z9", "D1", "D2", "D4", "D5", "D6"]
    )
    name = "x".join(draw(st.lists(factor, min_size=1, max_size=2)))
    return name if group(name).order <= 144 else name.split("x")[0]
