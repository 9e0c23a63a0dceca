"""Fronts: the programs' own paths are allowed at no cost, other algorithms' are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statetrace.mechanisms.paths import along, best, composed, counted, doubling, one_by_one
from statetrace.mechanisms.signatures import signature

RULES = {"counted": counted, "one by one": one_by_one, "composed": composed}


def steps(fronts, length):
    """Costs [rows, T] of a grid whose rows are exact step functions at these fronts."""
    return np.abs(np.arange(1, length + 1)[None] - np.array(fronts)[:, None]) / length


@pytest.mark.parametrize(
    ("fronts", "rule"),
    [
        ([1, 1, 16, 16], "counted"),
        ([1, 2, 3, 4, 5, 6, 7, 8], "one by one"),
        ([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6], "one by one"),
        ([1, 2, 4, 8, 16], "composed"),
        ([1, 1, 2, 2, 4, 4, 8, 16, 16], "composed"),
        ([1, 2, 12, 12], "composed"),  # the last step may be long
        ([1, 2, 2, 3, 7, 17, 22, 28, 32], "composed"),  # a trained model
    ],
)
def test_each_path_belongs_to_one_rule(fronts, rule):
    length = fronts[-1]
    costs = steps(fronts, length)
    for name, allowed in RULES.items():
        assert (best(costs, allowed(length)) == 0) == (name == rule)


@pytest.mark.parametrize("length", [2, 5, 8, 11, 24, 32, 100])
def test_the_doubling_programs_fronts(length):
    fronts = signature("associative", "S3", length, pairs=50).restores()
    assert doubling(length) == fronts
    idle = [front for front in fronts for _ in range(2)]
    assert along(steps(idle, length), fronts) == 0
    if len(fronts) > 3:
        assert along(steps(fronts[:1] + fronts[2:], length), fronts) > 0  # none may be left out


@given(st.integers(2, 9), st.integers(2, 5), st.randoms(use_true_random=False))
def test_the_best_path_is_the_best_of_all(length, rows, random):
    costs = np.array([[random.random() for _ in range(length)] for _ in range(rows)])
    for allowed in (rule(length) for rule in RULES.values()):
        cheapest = np.inf

        def walk(row, front, total, allowed=allowed):
            nonlocal cheapest
            total += costs[row, front]
            if row == rows - 1:
                cheapest = min(cheapest, total)
                return
            for follower in np.flatnonzero(allowed[front]):
                walk(row + 1, follower, total)

        walk(0, 0, 0.0)
        assert best(costs, allowed) == pytest.approx(cheapest / rows)
