"""Sentences from made-up results whose message is known."""

import numpy as np
import pytest

from statetrace.lenses.result import LensResult
from statetrace.report.headlines import headlines


def patching(restored):
    """A table in which layer l needs restored[split][l] actions; None for never."""
    columns = {
        name: []
        for name in ("where", "what", "kind", "metric", "split", "layer", "position", "mean", "n")
    }
    for split, needs in restored.items():
        for layer, need in enumerate(needs):
            for position in range(4):
                mean = 0.9 if need is not None and position + 1 >= need else 0.1
                row = ("prefix", "substitution", "resid", "nld", split, layer, position, mean, 5)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return LensResult("patching", {}, columns, {"x": np.zeros(1)})


def test_patching_reads_off_the_signature(tmp_path):
    patching({"all": [1, 2, 4], "opposite parity": [1, 4, None]}).save(tmp_path)
    assert headlines(tmp_path)["patching"].endswith("all 1 2 4; opposite parity 1 4 -")


@pytest.mark.parametrize(
    ("first_below", "said"), [(13, "below 98% from length 13 on"), (None, "above 98% to length 24")]
)
def test_generalization_tells_the_cutoff(tmp_path, first_below, said):
    summary = {"accuracy": {"state": 0.5}, "training_length": 12, "longest": 24, "threshold": 0.98}
    summary["cutoff"] = {"state": {"first_below": first_below}}
    LensResult("generalization", {}, {"what": []}, summary=summary).save(tmp_path)
    assert said in headlines(tmp_path)["generalization"]


def test_lenses_with_nothing_to_say_are_left_out(tmp_path):
    LensResult("attention", {}, {"measure": []}, summary={}).save(tmp_path)
    LensResult("geometry", {}, {"measure": []}, summary={"states_visited": 59}).save(tmp_path)
    LensResult("dynamics", {}, {"measure": []}, summary={"evaluations": 1}).save(tmp_path)
    assert headlines(tmp_path) == {}


def test_only_what_is_asked_for_is_read(tmp_path):
    patching({"all": [1, 2, 4]}).save(tmp_path)
    (tmp_path / "geometry.json").write_text("{}")
    assert list(headlines(tmp_path, ["patching"])) == ["patching"]


def test_attention_says_how_a_head_was_taken_out_and_what_it_could_score(tmp_path):
    """The same number as the verdict's: the mean, not zeros."""
    summary = {"quotient": "parity", "score_ceiling": 200.0, "top_score_by_chance": 42.0}
    summary["top_heads"] = [{"layer": 2, "head": 1, "score": 97.0}]
    drops = {"zero": 0.16, "mean": 0.09}
    summary["ablation"] = [
        {"heads": heads, "method": method, "drop": {"parity": lost - (heads != "top 1") * 0.05}}
        for heads in ("top 1", "control 1")
        for method, lost in drops.items()
    ]
    LensResult("attention", {}, {"measure": []}, summary=summary).save(tmp_path)
    assert headlines(tmp_path)["attention"] == (
        "best parity head, layer 2 head 1: 97% of at most 200% (for other sets of actions 42%); "
        "with its output set to its mean parity loses 9 points, with another's 4"
    )
