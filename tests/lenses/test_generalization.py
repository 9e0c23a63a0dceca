"""Cutoffs and intervals, on answers whose quality is known by construction."""

import numpy as np
import pytest

from statetrace.errors import StatetraceError
from statetrace.lenses import generalization as lens
from statetrace.lenses.generalization import generalization
from statetrace.lenses.parts.cutoffs import first_below, reach
from statetrace.lenses.parts.intervals import wilson
from statetrace.lenses.specs import GeneralizationSpec
from statetrace.models import ModelSpec, build
from statetrace.tasks.word_problem import word_problem


def tiny(task, positions=None):
    spec = ModelSpec("gpt2", layers=1, width=16, heads=2)
    return build(spec, task.vocabulary.size, positions or 4 * task.length, seed=0)


def oracle(task, state_until, parity_until, seed=0):
    """Answers right up to one length, of the right parity up to another, then at random."""
    rng = np.random.default_rng(seed)
    parity = task.group.parity

    def say(stack, asked, sequences):
        predicted = rng.integers(0, task.group.order, size=sequences.states.shape)
        same = np.array([np.flatnonzero(parity == p) for p in (0, 1)])  # [2, order / 2]
        of_parity = same[parity[sequences.states], rng.integers(0, same.shape[1], predicted.shape)]
        predicted[:, :parity_until] = of_parity[:, :parity_until]
        predicted[:, :state_until] = sequences.states[:, :state_until]
        return predicted[None]

    return say


@pytest.mark.parametrize(("state_until", "parity_until"), [(7, 7), (7, 12), (3, 16), (16, 16)])
def test_cutoffs_are_where_the_answers_end(monkeypatch, state_until, parity_until):
    task = word_problem("S3", 8)
    monkeypatch.setattr(lens, "stacked_answers", oracle(task, state_until, parity_until))
    result = generalization(tiny(task), task, GeneralizationSpec(bootstrap=50))
    cutoff = result.summary["cutoff"]
    expected = {"state": state_until, "parity": parity_until}
    for what, until in expected.items():
        assert cutoff[what]["first_below"] == (None if until == 16 else until + 1)
        assert cutoff[what]["reach"] >= until
        assert cutoff[what]["low"] == until + 1
    rows = result.rows(what="state")
    after = [r["accuracy"] for r in rows if r["length"] > parity_until]
    assert after == pytest.approx([1 / 6] * len(after), abs=0.05)
    between = [r["accuracy"] for r in rows if state_until < r["length"] <= parity_until]
    assert between == pytest.approx([1 / 3] * len(between), abs=0.06)


def test_one_bad_short_length_does_not_hide_the_rest():
    accuracy = np.array([0.86] + [1.0] * 20 + [0.5] * 10)
    assert first_below(accuracy, 0.98) == 1
    assert reach(accuracy, 0.98) == 21
    assert reach(np.array([0.5, 0.5]), 0.98) == 0
    assert first_below(np.ones(5), 0.98) == lens.NEVER


def test_the_bootstrap_interval_holds_an_uncertain_cutoff(monkeypatch):
    """Accuracy sinks slowly through the threshold: the cutoff is uncertain, the interval wide."""
    task = word_problem("S3", 30)
    rng = np.random.default_rng(0)

    def sinking(stack, asked, sequences):
        wrong = rng.random(sequences.states.shape) < np.linspace(0, 0.04, sequences.length)
        return np.where(wrong, (sequences.states + 1) % 6, sequences.states)[None]

    monkeypatch.setattr(lens, "stacked_answers", sinking)
    spec = GeneralizationSpec(longest=30, sequences=300, bootstrap=300)
    cutoff = generalization(tiny(task), task, spec).summary["cutoff"]["state"]
    assert cutoff["low"] <= cutoff["first_below"] <= cutoff["high"]
    assert cutoff["low"] < cutoff["high"]


def test_wilson_against_known_values():
    low, high = wilson(np.array([0, 5, 10]), 10)
    assert low == pytest.approx([0.0, 0.2366, 0.7225], abs=1e-4)
    assert high == pytest.approx([0.2775, 0.7634, 1.0], abs=1e-4)


def test_no_parity_no_column():
    task = word_problem("A4", 4)
    result = generalization(tiny(task), task, GeneralizationSpec(sequences=100, bootstrap=10))
    assert set(result.columns["what"]) == {"state", "Z3"}


def test_positions_limit_the_length():
    task = word_problem("S3", 700)  # GPT-2 has 1,024 positions
    spec = GeneralizationSpec(sequences=4, bootstrap=2)
    result = generalization(tiny(task, 8), task, spec)
    assert result.summary["longest"] == 1023
    assert "1024 positions" in result.notes[0]
    with pytest.raises(StatetraceError, match=r"length 2000 needs 2001.*use length 1023 at most"):
        generalization(tiny(task, 8), task, GeneralizationSpec(longest=2000))


def test_fewer_sequences_than_asked_for():
    task = word_problem("Z2", 3)
    result = generalization(tiny(task), task, GeneralizationSpec(longest=3, bootstrap=5))
    assert result.columns["n"] == [8, 8, 8]
    assert "8 sequences of length 3 instead of 1000" in result.notes[0]


def test_a_vocabulary_that_does_not_hold_the_actions():
    with pytest.raises(StatetraceError, match=r"has 7 tokens, but S4 has 24 elements"):
        generalization(tiny(word_problem("S3", 4)), word_problem("S4", 4))
