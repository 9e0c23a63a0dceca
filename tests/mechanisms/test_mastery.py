"""Cutoff and solved length of constructed accuracies, and that all outputs share them."""

from __future__ import annotations

import numpy as np
import pytest

from statetrace.groups import group
from statetrace.lenses.parts.cutoffs import NEVER, THRESHOLD, first_below, reach
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.cutoff_verdict import cutoff_verdict
from statetrace.mechanisms.mastery import cutoff_sentence, cutoffs, has_learned, solved_length
from statetrace.mechanisms.verdict import verdict
from statetrace.reports.figures.generalization import cutoff_table
from statetrace.reports.headlines import headline
from statetrace.reports.run_results import RunResults

LENGTH = 12
DIP = [1.0] * 4 + [0.97] + [1.0] * 7 + [0.2] * 12
"""One length slightly below the threshold, then all solved up to the training length."""
EARLY = [1.0] * 6 + [0.2] * 18
NEVER_BELOW = [1.0] * 24


def general(**curves: list[float]) -> LensResult:
    """The result of the generalization lens for these accuracies by length."""
    ends = {}
    for what, curve in curves.items():
        first = int(first_below(np.array(curve), THRESHOLD))
        first_or_none = None if first == NEVER else first
        ends[what] = {"first_below": first_or_none, "low": first, "high": first_or_none}
        ends[what]["reach"] = int(reach(np.array(curve), THRESHOLD))
    rows = [(what, n, x) for what, curve in curves.items() for n, x in enumerate(curve, 1)]
    names = ("what", "length", "accuracy")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    columns["n"] = [1000] * len(rows)
    columns["chance"] = [1 / 6 if what == "state" else 1 / 2 for what, *_ in rows]
    accuracy = {what: float(np.mean(curve[:LENGTH])) for what, curve in curves.items()}
    summary = {"training_length": LENGTH, "longest": 24, "threshold": THRESHOLD}
    summary |= {"cutoff": ends, "accuracy": accuracy}
    return LensResult("generalization", {}, columns, summary=summary)


@pytest.mark.parametrize(
    ("curve", "cutoff", "solved"),
    [(DIP, 5, LENGTH), (EARLY, 7, 6), (NEVER_BELOW, "beyond 24", LENGTH), ([0.5] * 24, 1, 0)],
)
def test_cutoff_and_solved_length(curve, cutoff, solved):
    result = general(state=curve)
    assert cutoffs(result) == {"state": cutoff}
    assert solved_length(result) == solved
    assert has_learned(result) == (solved >= 4)


def test_all_outputs_have_the_same_cutoffs():
    result = general(state=EARLY, parity=NEVER_BELOW)
    sentence = cutoff_sentence(result)
    assert sentence in headline(result)
    assert cutoff_verdict(result)["evidence"]["generalization"]["says"] == sentence
    _, table = cutoff_table(RunResults([result], group("S3"), LENGTH))
    assert (
        {row[0]: row[2] for row in table} == cutoffs(result) == {"state": 7, "parity": "beyond 24"}
    )


def test_an_unlearned_model_has_no_confidence_to_show():
    judged = verdict({"generalization": general(state=[0.5] * 24)}, group("S3"))
    assert judged.mechanism == "unlearned"
    assert "confidence" not in repr(judged) + judged._repr_html_()
