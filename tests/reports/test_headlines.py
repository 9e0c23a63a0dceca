"""Headlines of constructed results."""

import re

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


def test_attention_reports_the_mean_ablation():
    """The verdict uses the same ablation: by the mean, not by zeros."""
    summary = {"quotient": "parity", "score_ceiling": 200.0, "top_score_by_chance": 42.0}
    summary["top_heads"] = [{"layer": 2, "head": 1, "score": 97.0}]
    drops = {"zero": 0.16, "mean": 0.09}
    summary["ablation"] = [
        {"heads": heads, "method": method, "drop": {"parity": lost - (heads != "top 1") * 0.05}}
        for heads in ("top 1", "control 1")
        for method, lost in drops.items()
    ]
    sentence = headline(LensResult("attention", {}, {"measure": []}, summary=summary))
    assert re.findall(r"\d\.\d\d", sentence) == ["0.97", "0.42", "0.09", "0.04"]
