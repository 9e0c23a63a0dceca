"""Headlines of constructed results."""

import numpy as np
import pytest

from statetrace.lenses.result import LensResult
from statetrace.reports.headlines import headline


def patching(restored):
    """A table in which layer l needs restored[split][l] actions; None for never."""
    columns = {
        name: []
        for name in (
            "where",
            "what",
            "kind",
            "head",
            "metric",
            "split",
            "layer",
            "position",
            "mean",
        )
    }
    for split, needs in restored.items():
        for layer, need in enumerate(needs):
            for position in range(4):
                mean = 0.9 if need is not None and position + 1 >= need else 0.1
                row = ("prefix", "substitution", "resid", None, "nld", split, layer, position, mean)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return LensResult("patching", {}, columns, {"x": np.zeros(1)})


def test_patching_reports_the_restoring_prefix_by_layer():
    sentence = headline(patching({"all": [1, 2, 4], "opposite parity": [1, 4, None]}))
    assert sentence.endswith("all pairs 1 2 4; opposite parity 1 4 -")


@pytest.mark.parametrize(
    ("cutoffs", "expected"),
    [
        ({"state": 13}, "; below 98% from length 13"),
        ({"state": None}, "; above 98% up to length 24"),
        ({"state": 13, "parity": 13}, "; state and parity below 98% from length 13"),
        (
            {"state": 13, "parity": None},
            "; state below 98% from length 13; parity above 98% up to length 24",
        ),
    ],
)
def test_generalization_reports_accuracy_and_cutoffs(cutoffs, expected):
    summary = {"training_length": 12, "longest": 24, "threshold": 0.98}
    summary["accuracy"] = dict.fromkeys(cutoffs, 0.5)
    summary["cutoff"] = {what: {"first_below": length} for what, length in cutoffs.items()}
    accuracy = ", ".join(f"{what} 50.0%" for what in cutoffs)
    sentence = headline(LensResult("generalization", {}, {"what": []}, summary=summary))
    assert sentence == f"{accuracy} accurate up to length 12{expected}"


@pytest.mark.parametrize(
    ("lens", "summary"),
    [
        ("attention", {}),
        ("geometry", {"states_visited": 59}),
        ("dynamics", {"evaluations": 1}),
        ("of-a-plug-in", {"nested": {"a": 1}}),
    ],
)
def test_results_without_main_numbers_have_no_headline(lens, summary):
    assert headline(LensResult(lens, {}, {"measure": []}, summary=summary)) == ""


def test_attention_reports_the_mean_ablation_and_the_highest_possible_score():
    """The verdict uses the same ablation: by the mean, not by zeros."""
    summary = {"quotient": "parity", "score_ceiling": 200.0, "top_score_by_chance": 42.0}
    summary["top_heads"] = [{"layer": 2, "head": 1, "score": 97.0}]
    drops = {"zero": 0.16, "mean": 0.09}
    summary["ablation"] = [
        {"heads": heads, "method": method, "drop": {"parity": lost - (heads != "top 1") * 0.05}}
        for heads in ("top 1", "control 1")
        for method, lost in drops.items()
    ]
    assert headline(LensResult("attention", {}, {"measure": []}, summary=summary)) == (
        "best parity head (layer 2, head 1): score 0.97 (chance 0.42, at most 2.00); "
        "mean-ablating it costs 9 points of parity accuracy (a random head: 4)"
    )
