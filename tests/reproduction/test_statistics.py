"""Intervals and rules against brute force."""

import itertools
import math

import numpy as np
import pytest

from reproduction.rules import supports
from reproduction.statistics import (
    Number,
    deviation_interval,
    exact_p,
    kappa,
    mean_difference,
    rank_correlation,
    share,
    share_difference,
    wilson,
)
from statetrace.errors import StatetraceError


@pytest.mark.parametrize(("count", "n"), [(0, 4), (3, 3), (44, 45), (127, 141), (5, 20)])
def test_wilson_ends_are_where_the_score_test_rejects(count, n):
    for end in wilson(count, n):
        if 0 < end < 1:
            z = abs(count / n - end) / math.sqrt(end * (1 - end) / n)
            assert z == pytest.approx(1.959964, abs=1e-5)


def test_exact_p_is_that_of_all_ways_to_deal_the_models():
    tables = [(3, 3, 0, 6), (2, 4, 1, 3)]
    chances = []
    for a, m, b, n in tables:
        labels = [1] * (a + b) + [0] * (m + n - a - b)
        deals = [
            sum(labels[i] for i in chosen) for chosen in itertools.combinations(range(m + n), m)
        ]
        chances.append(np.array(deals))
    both = (chances[0][:, None] + chances[1][None, :]).ravel()
    assert exact_p(tables) == pytest.approx((both >= 5).mean())
    assert exact_p([(3, 3, 0, 6)]) == pytest.approx(1 / 84)


def test_share_difference_has_the_sign_and_width_of_one_table():
    value, low, high = share_difference([(4, 4, 0, 6)])
    assert value == 1
    assert (low + high) / 2 == pytest.approx(5 / 6 - 1 / 8)
    halved = share_difference([(2, 2, 0, 3), (2, 2, 0, 3)])
    assert halved[0] == 1
    assert halved[1] + halved[2] == pytest.approx(2 * (3 / 4 - 1 / 5))
    assert share_difference([(0, 4, 0, 6)])[0] == 0


def test_mean_difference_covers_the_truth():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(100):
        first, second = rng.normal(1, 1, 30), rng.normal(0, 1, 30)
        _, low, high = mean_difference(first, second)
        inside += low <= 1 <= high
    assert inside >= 88


def test_kappa_of_guessing_the_common_label_is_zero():
    value, _, _ = kappa(["p"] * 10, ["p"] * 8 + ["a"] * 2)
    assert value == pytest.approx(0)
    assert kappa(list("aabb"), list("aabb"))[0] == 1


def test_rank_correlation_and_deviation():
    assert rank_correlation(range(12), [2**i for i in range(12)], "layers").value == pytest.approx(
        1
    )
    low, high = deviation_interval(1.0, 10)  # chi-squared: 0.688 to 1.826
    assert (low, high) == (pytest.approx(0.688, abs=0.005), pytest.approx(1.826, abs=0.01))


def number(value, low=None, high=None, n=10):
    return Number(value, n, "models", low, high)


@pytest.mark.parametrize(
    ("rule", "measured", "decision"),
    [
        ({"at_least": 0.5}, number(0.6, 0.5, 0.7), True),
        ({"at_least": 0.5}, number(0.6, 0.4, 0.7), None),
        ({"at_least": 0.5}, number(0.3, 0.2, 0.4), False),
        ({"at_least": 0.5, "least": 12}, number(0.6, 0.5, 0.7), None),
        ({"at_most": 0.1}, number(0.05), True),
        ({"at_most": 0.1}, number(0.2, 0.11, 0.3), False),
        ({"near": [0.5, 0.1]}, number(0.55, 0.5, 0.6), True),
        ({"near": [0.5, 0.1]}, number(0.55, 0.5, 0.61), None),
        ({"near": [0.5, 0.1]}, number(0.7, 0.61, 0.8), False),
        ({"contains": 1 / 3}, number(0.35, 0.32, 0.38), True),
        ({"contains": 1 / 3}, number(0.4, 0.36, 0.44), False),
        ({"contains": 0.5, "widest": 0.5}, number(0.5, 0.2, 0.8), None),
        ({"equal": 0.5}, number(0.1, -0.2, 0.4), True),
        ({"equal": 0.5}, number(0.1, -0.2, 0.6), None),
        ({"equal": 0.5}, number(0.3, 0.1, 0.5), False),
    ],
)
def test_rules(rule, measured, decision):
    assert supports(rule, measured) is decision


@pytest.mark.parametrize(
    ("count", "n", "decision"),
    [
        (44, 45, True),
        (3, 3, True),
        (2, 2, None),
        (2, 4, None),
        (50, 55, None),
        (5, 20, False),
        (127, 141, False),
    ],
)
def test_one_exception_does_not_refute_always(count, n, decision):
    assert supports({"most": 0.95}, share(count, n)) is decision


def test_a_rule_without_a_kind_is_refused():
    with pytest.raises(StatetraceError, match="at_leest"):
        supports({"at_leest": 1}, number(1))


def test_numbers_are_printed_with_their_units():
    assert share(44, 45).text() == "98% (88% to 100%)"
    assert Number(10.0167, 790, "pairs", 9.0, 11.03, "layers").text() == "10 layers (9 to 11)"
    assert Number(-7.15, 1, "models", unit="%").text() == "−7.15%"
    assert Number(33.8, 6, "models", -math.inf, math.inf).text() == "33.8 (no interval)"
