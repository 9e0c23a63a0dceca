"""When the mechanism is decided: shares by initial weights, and branches."""

import numpy as np
import pytest

from reproduction import commitment
from reproduction.commitment import LAST, STEPS
from statetrace.reports.figures.chart import Dots
from tests.reproduction.conftest import model_of


def crossed(chance):
    rng = np.random.default_rng(0)
    return [
        model_of(rng.random() < chance(init, order), init_seed=init, seed=order)
        for init in range(16)
        for order in range(16)
    ]


def with_branches(number, end, decided, **more):
    """A parent whose branches end as it does from a step on, and else half and half; the map knows
    its end from the start."""
    ours = [model_of(end, seed=number, cell=f"seed-{number}", step=step) for step in (*STEPS, LAST)]
    return ours + [
        model_of(end if step >= decided else order % 2, parent=number, branch_step=step, seed=order)
        for step in STEPS
        for order in range(100, 116)
    ]


def test_initial_weights_that_decide():
    some = crossed(lambda init, _: 0.9 if init % 2 else 0.1)
    assert commitment.differ(some, "init_seed") < 0.001
    assert commitment.differ(some, "seed") > 0.05
    groups = commitment.by_level(some, "init_seed")
    assert len(groups) == 16
    assert commitment.variance_between([*groups.values()]) == pytest.approx(0.64, abs=0.15)
    chance = commitment.by_level(crossed(lambda *_: 0.5), "init_seed").values()
    assert commitment.variance_between([*chance]) == pytest.approx(0, abs=0.05)


def test_variance_between_groups():
    assert commitment.variance_between([[True] * 4, [False] * 4]) == 1
    assert commitment.variance_between([[True] * 4, [True] * 4]) == 0
    assert commitment.variance_between([[True, False], [True, False]]) == pytest.approx(-1)


def test_a_threshold_ignores_other_values():
    values = np.array([[0.1, 5], [0.2, 3], [0.8, 4], [0.9, 6]])
    assert commitment.threshold(values, np.array([True, True, False, False])) == (0, 0.5, False)


def test_the_step_at_which_a_model_is_committed():
    models = with_branches(0, True, 1000) + with_branches(1, False, 250)
    models += with_branches(2, True, LAST)
    models += with_branches(3, True, 500)[:-16]  # branches of a step are missing
    some = commitment.parents(models)
    assert [parent.committed for parent in some] == [1000, 250, LAST]
    assert [commitment.associative(parent.last) for parent in some] == [True, False, True]
    assert some[0].agreement(500) == 0.5


def test_planned_tests_and_figure():
    models = crossed(lambda init, _: init / 16)
    for number in range(12):
        models += with_branches(number, number % 3 == 0, 500)
    tests = commitment.planned_tests(models)
    assert len(tests) == 8
    assert tests["init_seed"][1] < 0.05
    assert tests["committed by 1000"] == pytest.approx((2 / 2**12, 7 * 2 / 2**12), rel=0.2)
    assert tests["foresight at 250"][0] == 1  # all branches are half and half
    assert tests["foresight at 2000"][1] < 0.05
    ends = commitment.figure(models).panels[1].marks
    assert sum(len(mark.x) for mark in ends if isinstance(mark, Dots)) == 12 * 16
    assert commitment.planned_tests([])["init_seed"] == (1, 1)
