"""Whether what is taught before pushes towards a mechanism: exact tests against known chances."""

import math
from itertools import permutations

import numpy as np
import pytest

from reproduction.measures.regime_effects import FEWER, MORE, at_least, by_width, gap, moved, pushed
from reproduction.results import Results
from reproduction.rules import AGREES, DIFFERS, AtMost, Inside, judge
from tests.reproduction.made import write_csv, write_study

AA, PAA = "associative", "parity-associative"
PAIR = ("small", "small-regimes")


@pytest.mark.parametrize(("topics", "judgement"), [([AA] * 6, AGREES), ([PAA] * 6, DIFFERS)])
def test_what_topic_models_push(tmp_path, topics, judgement):
    write_study(tmp_path, "small", [PAA] * 6)
    write_study(tmp_path, "small-regimes", topics, regime="topic-1")
    assert judge(AtMost(0.05), pushed("topic", MORE, PAIR)(Results(tmp_path))) == judgement
    none = judge(Inside(0, widest=100), moved("topic", PAIR)(Results(tmp_path)))
    assert none == (DIFFERS if judgement == AGREES else AGREES)
    assert judge(AtMost(0.05), pushed("topic", FEWER, PAIR)(Results(tmp_path))) == DIFFERS
    assert pushed("control", MORE, PAIR)(Results(tmp_path)).value is None
    write_study(tmp_path, "small", [PAA] * 6, width=128)  # others are no fair comparison
    assert pushed("topic", MORE, PAIR)(Results(tmp_path)).value is None


def write_regimes(folder, name, **regimes):
    """One study of several regimes."""
    rows = []
    for regime, verdicts in regimes.items():
        write_study(folder, "part", verdicts, regime=regime)
        rows += Results(folder).study("part")
    write_csv(folder / "results" / name / "results.csv", rows)


def test_what_is_pushed_inside_one_study(tmp_path):
    """Where models from scratch, or those to compare with, are a regime among others."""
    write_regimes(tmp_path, "made", scratch=[PAA] * 6, control=[AA] * 6, parity=[AA] * 9)
    here = pushed("control", MORE, ("made", "made"))(Results(tmp_path))
    assert here.value == pytest.approx(1 / math.comb(12, 6))
    assert (here.n, here.sources) == (12, ("results/made/results.csv",))
    there = pushed("parity", MORE, ("made", "made"), against="control")(Results(tmp_path))
    assert (there.value, there.n) == (1.0, 15)
    assert "after control" in there.words


def test_studies_are_pooled_and_not_mixed(tmp_path):
    """Two studies that say nothing each, and something together; and one in which nothing can be
    said, as all are alike, changes nothing."""
    for name in ("one", "two"):
        write_regimes(tmp_path, name, scratch=[PAA] * 3, control=[AA] * 3)
    write_regimes(tmp_path, "alike", scratch=[AA] * 50, control=[AA] * 2)
    found = Results(tmp_path)
    pairs = [(name, name) for name in ("one", "two", "alike")]
    alone = pushed("control", MORE, pairs[0])(found)
    assert alone.value == pytest.approx(1 / 20)
    assert pushed("control", MORE, *pairs)(found).value == pytest.approx(1 / 20**2)


def test_chances_are_those_of_all_ways_to_shuffle():
    tables = [(2, 3, 0, 2), (1, 2, 1, 2)]

    def of_one(table):
        a, of, b, of_others = table
        models = [1] * (a + b) + [0] * (of + of_others - a - b)
        return [sum(order[:of]) for order in permutations(models)]

    totals = [one + two for one in of_one(tables[0]) for two in of_one(tables[1])]
    wanted = sum(total >= 3 for total in totals) / len(totals)
    assert at_least(tables) == pytest.approx(wanted)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.9, 0.9), (0.9, 0.4)])
def test_intervals_of_gaps_hold_what_they_should(p, q):
    """The true difference lies inside in about 95% of made-up pairs of studies."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        tables = [(rng.binomial(m, p), m, rng.binomial(n, q), n) for m, n in ((8, 24), (6, 6))]
        _, low, high = gap(tables)
        inside.append(low <= p - q <= high)
    assert 0.93 <= np.mean(inside) <= 0.99


def test_the_widest_models_against_the_narrowest(tmp_path):
    rows = []
    for width, verdicts in ((64, [PAA] * 6), (128, [AA] * 6), (256, [AA] * 3 + [PAA] * 3)):
        write_study(tmp_path, "part", verdicts, width=width)
        rows += Results(tmp_path).study("part")
    write_csv(tmp_path / "results" / "made" / "results.csv", rows)
    made = by_width("made", "absent", model="gpt2")(Results(tmp_path))
    assert made.value == pytest.approx(100 * gap([(3, 6, 6, 6)])[0])
    assert made.value < 0
    assert made.words == "PAA in 3 of 6 of the widest, 6 of 6 of the narrowest"
