"""Proportions and tests of association, on made-up tables whose answers are known."""

import numpy as np
import pytest

from statetrace.studies.proportions import associations, proportions


def table(rule, seeds=12):
    return [
        {
            "state": "finished",
            "model": model,
            "regime": regime,
            "seed": seed,
            "verdict": rule(model, regime, seed),
        }
        for model in ("gpt2", "pythia")
        for regime in ("plain", "topic")
        for seed in range(seeds)
    ]


FACTORS = ("model", "regime", "seed")


def test_shares_have_wilson_intervals():
    rows = table(lambda m, r, s: "AA" if r == "topic" or s < 6 else "PAA")
    rows.append({**rows[0], "state": "failed", "verdict": None})
    found = {
        (one["model"], one["regime"], one["mechanism"]): one for one in proportions(rows, FACTORS)
    }
    half, all_ = found["gpt2", "plain", "AA"], found["pythia", "topic", "AA"]
    assert (half["count"], half["cells"], half["share"]) == (6, 12, 0.5)
    assert (half["low"], half["high"]) == pytest.approx((0.2538, 0.7462), abs=1e-4)
    assert (all_["share"], all_["high"]) == (1.0, 1.0)
    assert all_["low"] == pytest.approx(0.7575, abs=1e-4)
    assert found["pythia", "topic", "PAA"]["count"] == 0


def test_the_factor_that_decides_is_found():
    rows = table(lambda m, r, s: "AA" if r == "topic" else "PAA")
    found = {one["factor"]: one for one in associations(rows, FACTORS)}
    assert set(found) == {"model", "regime"}
    assert found["regime"]["cramers_v"] == pytest.approx(1.0)
    assert found["regime"]["p"] < 0.001
    assert found["model"]["cramers_v"] == 0.0
    assert found["model"]["p"] == 1.0


def test_a_confounded_factor_is_not_blamed():
    """Only gpt2 was trained on topics: its verdicts differ, but not because it is gpt2."""
    rows = [
        row
        for row in table(lambda m, r, s: "AA" if r == "topic" else "PAA")
        if (row["model"], row["regime"]) != ("pythia", "topic")
    ]
    found = {one["factor"]: one["p"] for one in associations(rows, FACTORS)}
    assert found["model"] == 1.0
    assert found["regime"] < 0.001


def test_p_is_uniform_where_nothing_matters(monkeypatch):
    monkeypatch.setattr("statetrace.studies.proportions.SHUFFLES", 499)
    rng = np.random.default_rng(0)
    found = []
    for seed in range(20):
        rows = table(lambda m, r, s: str(rng.choice(["AA", "PAA"])), seeds=6)
        found += [one["p"] for one in associations(rows, FACTORS, seed=seed)]
    assert np.mean(np.array(found) < 0.05) <= 0.2
    assert 0.3 < np.mean(found) < 0.9


def test_all_alike_says_nothing():
    assert [one["p"] for one in associations(table(lambda *_: "AA"), FACTORS)] == [1.0, 1.0]
