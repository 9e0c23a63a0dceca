"""Pairs differ in one action and in nothing else, and are split by what their states share."""

import pytest

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.pairs import draw_pairs
from statetrace.tasks.word_problem import WordProblem, word_problem

LENGTH = 6


@pytest.fixture(scope="module")
def task() -> WordProblem:
    return word_problem("S3", LENGTH)


@pytest.mark.parametrize("corrupt_at", [0, 2, LENGTH - 1])
def test_pairs_differ_in_one_action_and_in_the_final_state(task, corrupt_at):
    pairs = draw_pairs(task, 400, LENGTH, corrupt_at, seed=3)
    assert len(pairs) == 400
    differ = pairs.clean != pairs.corrupted
    assert differ[:, corrupt_at].all()
    assert differ.sum() == 400
    for actions, states in (
        (pairs.clean, pairs.clean_state),
        (pairs.corrupted, pairs.corrupted_state),
    ):
        assert [task.group.product(map(int, row)) for row in actions] == states.tolist()
    assert (pairs.clean_state != pairs.corrupted_state).all()
    change = set(zip(pairs.clean[:, corrupt_at], pairs.corrupted[:, corrupt_at], strict=True))
    assert len(change) == 30  # every other action takes part


def test_pairs_depend_on_the_seed_alone(task):
    first, same, other = (draw_pairs(task, 30, LENGTH, 0, seed) for seed in (1, 1, 2))
    assert (first.corrupted == same.corrupted).all()
    assert (first.clean != other.clean).any()


def test_only_the_tasks_own_actions_corrupt():
    task = word_problem("S4", 5, actions="transpositions")
    pairs = draw_pairs(task, 100, 5, 0, seed=0)
    assert set(pairs.corrupted.ravel().tolist()) == set(task.actions)
    splits = pairs.splits(task.quotients())
    assert splits["same parity"].all()
    assert not splits["opposite parity"].any()


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("S3", ["all", "same parity", "opposite parity"]),
        ("S4", ["all", "same parity", "opposite parity", "same S3", "different S3"]),
        ("A4", ["all", "same Z3", "different Z3"]),
        ("A5", ["all"]),
    ],
)
def test_splits_are_those_the_group_has(name, splits):
    task = word_problem(name, 4)
    pairs = draw_pairs(task, 100, 4, 0, seed=0)
    members = pairs.splits(task.quotients())
    assert list(members) == splits
    for quotient in task.quotients():
        same = members[f"same {quotient.name}"]
        ratio = task.group.inverse[pairs.clean_state], pairs.corrupted_state
        kernel = [
            int(task.group.table[a, b]) in quotient.kernel for a, b in zip(*ratio, strict=True)
        ]
        assert same.tolist() == kernel
        assert 0 < same.sum() < 100


def test_one_action_cannot_be_corrupted():
    with pytest.raises(StatetraceError, match="Z1 with 1 action has no other action"):
        draw_pairs(word_problem("Z1", 3), 1, 3, 0, seed=0)


@pytest.mark.parametrize("name", ["S3", "S4", "A4"])
def test_balanced_pairs_share_the_first_quotient_half_of_the_time(name):
    task = word_problem(name, LENGTH)
    quotient = task.quotients()[0]
    pairs = draw_pairs(task, 200, LENGTH, 0, seed=3, balance=quotient)
    same = quotient.map[pairs.clean_state] == quotient.map[pairs.corrupted_state]
    assert same.sum() == 100
    assert ((pairs.clean != pairs.corrupted).sum(1) == 1).all()
    uniform = draw_pairs(task, 200, LENGTH, 0, seed=3)
    assert (uniform.clean == pairs.clean).all()


def test_pairs_that_cannot_be_balanced_are_refused():
    task = word_problem("S3", LENGTH, actions="transpositions")
    with pytest.raises(StatetraceError, match="a different parity"):
        draw_pairs(task, 20, LENGTH, 0, seed=0, balance=task.quotients()[0])
