"""Attention that was made to be sparse, local or tangled, and such that is not."""

import numpy as np
import pytest

from reproduction.claims import CLAIMS
from reproduction.measures import attention_trees as of_trees
from reproduction.model_selection import A, P
from reproduction.results import Missing, Results
from reproduction.rules import AGREES, DIFFERS, NOT_REACHED, judge
from tests.reproduction.made import write_json

BY_NAME = {claim.name: claim for claim in CLAIMS}


def judged(name, root):
    claim = BY_NAME[name]
    return judge(claim.rule, claim.measure(Results(root)))


@pytest.mark.parametrize(
    ("tokens", "error", "judgement"),
    [
        ([8, 7, 3, 2], 0.1, AGREES),
        ([2, 3, 7, 8], 0.1, DIFFERS),
        ([5, 5, 4.9, 4.9], 1.0, NOT_REACHED),
    ],
)
def test_attention_that_gets_sparser(tmp_path, tokens, error, judgement):
    def write(summary):
        file = tmp_path / "results/zoo" / A / "attention.json"
        write_json(file, {"spec": {"examples": 50}, "summary": summary})

    write({"attended": {"mean": tokens, "error": [error] * 4}})
    found = of_trees.deeper_attention(A)(Results(tmp_path))
    assert found.value == pytest.approx((tokens[2] + tokens[3]) / (tokens[0] + tokens[1]))
    assert judged("sparser", tmp_path) == judgement
    write({})
    with pytest.raises(Missing):
        of_trees.deeper_attention(A)(Results(tmp_path))


def test_trees_that_thin_out(tmp_path):
    for edges, judgement in (
        ([16, 12, 8, 7, 6, 5, 4, 3, 2, 1], AGREES),
        ([1, 2, 3, 4, 5, 6, 7, 8, 12, 16], DIFFERS),
        ([3, 9, 1, 7, 5, 6, 2, 8, 4, 3], NOT_REACHED),
    ):
        file = tmp_path / "results/zoo" / A / "attention.json"
        write_json(file, {"summary": {"tree_edges": edges}})
        assert judged("tree-thins", tmp_path) == judgement


def test_settings_of_trees(tmp_path):
    """Each that is not the paper's costs a quarter."""
    paper = {"weight": 0.95, "top_target": 3, "top_source": 10, "examples": 50}
    for changed, share in (
        ({}, 1),
        ({"tree_examples": 2}, 3 / 4),
        ({"weight": 0.5, "top_target": 4}, 2 / 4),
    ):
        spec = paper | {"tree_examples": None} | changed
        file = tmp_path / "results/zoo" / A / "attention.json"
        write_json(file, {"spec": spec, "summary": {"tree_edges": [3, 2, 1]}})
        assert of_trees.tree_settings(A)(Results(tmp_path)).value == share
        assert judged("tree-settings", tmp_path) == (AGREES if share == 1 else DIFFERS)


def test_clean_trees_and_others(tmp_path):
    clean = [(1, 0, 1), (1, 2, 3), (2, 1, 3), (2, 3, 3)]  # ((0 1) (2 3))
    for edges, kinds in (
        (clean, 0),
        ([*clean, (1, 1, 3)], 1),  # a second way into (3, 1)
        ([*clean, (1, 3, 0)], 1),  # across (2, 3); into a position that no other leads to
        ([*clean, (1, 1, 3), (1, 3, 0)], 2),
    ):
        tree = {"edges": edges}
        write_json(tmp_path / "results/zoo" / A / "drawn.json", {"tree": tree})
        assert of_trees.unclean(A)(Results(tmp_path)).value == kinds
        assert judged("tree-unclean", tmp_path) == (AGREES if kinds == 2 else DIFFERS)


def test_heads_that_look_at_one_part(tmp_path):
    """Of 30 actions: evenly, and at the middle third of what there is."""
    evenly = np.tril(np.ones((30, 30))) / np.arange(1, 31)[:, None]
    middle = np.zeros((30, 30))
    for t in range(30):
        middle[t, np.array_split(np.arange(t + 1), 3)[1]] = 0.1
    middle[:, 0] += 0.05
    for maps, judgement in (([evenly], DIFFERS), ([evenly, middle], AGREES)):
        drawn = {"maps": [one.tolist() for one in maps], "heads": [[1, 0], [1, 1]][: len(maps)]}
        write_json(tmp_path / "results/zoo" / P / "drawn.json", drawn)
        assert judged("heads-local", tmp_path) == judgement
    found = of_trees.local_head(P)(Results(tmp_path))
    assert found.n == 10
    assert found.words.endswith("in the middle (layer 1, head 1)")
    assert of_trees.thirds(evenly)[-1] == pytest.approx([1 / 3] * 3)
