"""What a program says it reads against what changes when a cell is disturbed."""

import itertools

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.mechanisms.algorithms import ALGORITHMS
from statetrace.mechanisms.dependencies import dependencies
from tests.mechanisms.cases import program

CASES = [*((name, "S3") for name in ALGORITHMS), ("parallel", "S4"), ("parity-associative", "D4")]


@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_cells_read_what_they_say_and_nothing_else(case, length):
    this = program(*case)
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, this.group.order, size=(2, 60, length))
    layers = this.depth(length) + 1
    h, other = this.run(first, layers), this.run(second, layers)
    for layer, source in itertools.product(range(1, layers + 1), range(length)):
        disturbed = h[layer - 1].copy()
        disturbed[:, source] = other[layer - 1][:, source]
        changed = (this.step(layer, disturbed) != h[layer]).any((0, 2))  # [T]
        assert np.array_equal(changed, this.reads(layer, length)[:, source])


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_only_used_cells_change_the_answer(case):
    this = program(*case)
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, this.group.order, size=(2, 60, 6))
    layers = this.depth(6)
    h, other = this.run(first, layers), this.run(second, layers)
    changed = np.zeros((layers + 1, 6), dtype=bool)
    for row, t in itertools.product(range(layers + 1), range(6)):
        patched = h[row].copy()
        patched[:, t] = other[row][:, t]
        for layer in range(row + 1, layers + 1):
            patched = this.step(layer, patched)
        changed[row, t] = (patched[:, -1] != h[-1][:, -1]).any()
    assert np.array_equal(changed, dependencies(this, 6).used)


def test_the_associative_tree_of_eight():
    found = dependencies(program("associative", "S5"), 8)
    assert [np.flatnonzero(row).tolist() for row in found.used] == [
        list(range(8)), [1, 3, 5, 7], [3, 7], [7]
    ]  # fmt: skip
    assert [arrow for arrow in found.arrows if arrow[0] > 1] == [
        (2, 1, 3), (2, 3, 3), (2, 5, 7), (2, 7, 7), (3, 3, 7), (3, 7, 7)
    ]  # fmt: skip
    table = found.table()
    rows = zip(*(table[name] for name in ("layer", "source", "position")), strict=True)
    assert tuple(rows) == found.arrows


def test_the_sequential_staircase():
    used = dependencies(program("sequential", "S3"), 5).used
    assert np.array_equal(used, np.triu(np.ones((5, 5), dtype=bool)))


def test_bad_length():
    with pytest.raises(StatetraceError, match="length 0"):
        dependencies(program("sequential", "S3"), 0)
