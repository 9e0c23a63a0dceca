"""The space of documents, and the finding that reads its tables."""

import numpy as np
import pytest

from reproduction import document_space, documents
from reproduction.document_space import POINTS, RANGES, factors, scaled, stages
from reproduction.judged import Judged
from tests.reproduction.conftest import model_of

SPACE = stages()
SCALED = np.array([[scaled(k, v) for k, v in factors(s).items()] for s in SPACE.values()])


def test_the_study_is_the_written_one():
    text = document_space.STUDY.read_text()
    written = "".join(f"{line}\n" for line in document_space.lines())
    assert text.endswith(f"[grid.before]\n{written}")


def test_factors_vary_independently_over_their_ranges():
    assert len(SPACE) == 100
    assert SCALED.min() > -0.01
    assert SCALED.max() < 1.01
    assert (np.ptp(SCALED, axis=0) > 0.9).all()
    assert np.abs(np.corrcoef(SCALED.T) - np.eye(len(RANGES))).max() < 0.15
    for start in range(0, 100, POINTS):
        some = SCALED[start : start + POINTS]
        assert np.abs(np.corrcoef(some.T) - np.eye(len(RANGES))).max() < 0.3
        assert (np.ptp(some, axis=0) > 0.9).all()


def test_factors_of_a_table():
    stage = {"table": "1 0 0 0 0 0; 0 1 1 0 0 0", "length": 16, "steps": 250}
    values = factors(stage)
    assert [*values.values()] == pytest.approx([0.5, 1.5, 1.0, 2, 16, 250])
    assert document_space.parity_information(stage) == pytest.approx(1)
    assert document_space.parity_information({"table": "1 1 0 0 0 0; 0 0 1 1 0 0"}) == 0
    for name, value in values.items():
        assert document_space.value_at(name, scaled(name, value)) == pytest.approx(value)


def models(chance):
    """20 of each distribution, and 10 of each comparison, associative with some probability."""
    rng = np.random.default_rng(0)
    cells = [(documents.TOKENS, name, chance(*row), 20)
             for name, row in zip(SPACE, SCALED, strict=True)]  # fmt: skip
    cells += [(documents.TOKENS, name, name == "random", 10) for name in documents.BEFORE]
    cells += [(documents.MARKER, name, 0.0, 10) for name in ("nothing", "random")]
    return [
        model_of(aa, width=64, anchor=anchor, before=before)
        for anchor, before, p, n in cells
        for aa in rng.random(n) < p
    ]


def test_the_factor_that_matters_is_told_from_the_others():
    some = models(lambda odd, *_: 0.2 + 0.5 * odd)
    share = documents.shares(some, SPACE)
    effects = documents.effects(share, SPACE)
    assert effects[:2] == pytest.approx([0.2, 0.5], abs=0.15)
    tests = documents.planned_tests(some, SPACE)
    assert len(tests) == 12
    small = {test for test, (_, corrected) in tests.items() if corrected < 0.05}
    random = documents.TOKENS, "random", "nothing"
    assert small == {("share of odd tokens",), random, (documents.TOKENS, "shuffled", "random"),
                     (documents.TOKENS, "topic-2", "random")}  # fmt: skip
    (low, _), (high, _) = documents.extremes(share, SPACE)
    assert factors(SPACE[low])["share of odd tokens"] < 0.3
    assert factors(SPACE[high])["share of odd tokens"] > 0.7
    assert len(documents.figure(some, SPACE).panels) == 8


def test_what_was_not_trained_is_corrected_for():
    some = [m for m in models(lambda *_: 0.5) if m["before"] in documents.BEFORE]
    unlearned = Judged({"width": 64, "anchor": documents.TOKENS, "before": "random",
                        "accuracy": 0.5}, [])  # fmt: skip
    tests = documents.planned_tests([*some, unlearned], SPACE)
    assert tests[("steps",)] == (1, 1)
    p, corrected = tests[documents.TOKENS, "random", "nothing"]
    assert corrected == pytest.approx(12 * p)
    assert len(documents.figure(some, SPACE).panels) == 2
