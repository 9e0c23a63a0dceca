"""The attention lens as a whole, on toy models of every family."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from statetrace.errors import StatetraceError
from statetrace.lenses import attention as lens
from statetrace.lenses.attention import attention, rank_heads
from statetrace.lenses.parts import attention_maps
from statetrace.lenses.parts.attention_table import spread
from statetrace.lenses.result import LensResult
from statetrace.lenses.specs import AttentionSpec
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import word_problem
from tests.lenses.test_attention_ablation import FAMILIES, model_named
from tests.lenses.test_attention_scores import literal_score
from tests.models.conftest import toy

TASK = word_problem("S3", 9)
SMALL = AttentionSpec(examples=6, ablation_examples=20, controls=2, relabelings=2, weight=0.2)


@pytest.mark.parametrize("start_marker", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_those_of_every_prefix_on_its_own(name, start_marker):
    """By causality row t of one map stands for the last row of the map of a prefix of length t."""
    model = model_named(name)
    task = word_problem("S3", 9, start_marker=start_marker)
    result = attention(model, task, SMALL)
    actions = task.draw(20, seed=0).actions[:6].astype(np.int64)
    odd = task.group.parity[actions].astype(bool)
    offset = int(start_marker)
    prefixes = np.zeros((3, 6, 4, 9, 9))
    for t in range(1, 10):
        tokens = task.encode(actions[:, :t])
        last = anatomy(model).attention_weights(tokens)[..., -1, offset:]
        prefixes[:, :, :, t - 1, :t] = last.numpy()
    scores = np.array(
        [
            [[literal_score(prefixes[layer, b, h], odd[b], 5, 0.95) for b in range(6)]
             for h in range(4)]
            for layer in range(3)
        ]
    )  # fmt: skip
    assert result.arrays["scores"] == pytest.approx(scores, abs=1e-3)
    assert len(np.unique(scores)) > 2
    for row in result.rows(measure="head score"):
        values = scores[row["layer"] - 1, row["head"]]
        assert row["name"] == "parity"
        assert row["mean"] == pytest.approx(values.mean())
        assert row["std"] == pytest.approx(values.std(ddof=1))
        assert row["n"] == 6
    assert len(result.rows(measure="head score")) == 12
    best = result.summary["top_heads"]
    highest = sorted(scores.mean(-1).ravel(), reverse=True)[:3]
    assert [head["score"] for head in best] == pytest.approx(highest)


@pytest.fixture(scope="module")
def gpt2() -> LensResult:
    return attention(model_named("gpt2"), TASK, SMALL)


def test_every_ablation_is_reported_by_length_and_as_a_drop(gpt2):
    for what in ("state", "parity"):
        (intact,) = gpt2.rows(measure="ablation", name=what, heads="none", length=None)
        assert intact["mean"] == pytest.approx(gpt2.summary["accuracy"][what])
        for heads in ("top 1", "top 2", "top 3", "control 1", "control 2", "control 3"):
            for method in ("zero", "mean"):
                which = {"name": what, "heads": heads, "method": method}
                accuracies = gpt2.rows(measure="ablation", **which)
                (overall,) = [row for row in accuracies if row["length"] is None]
                by_length = [row for row in accuracies if row["length"] is not None]
                assert [row["length"] for row in by_length] == list(range(1, 10))
                mean = np.mean([row["mean"] for row in by_length])
                assert overall["mean"] == pytest.approx(mean)
                assert all(row["low"] <= row["mean"] <= row["high"] for row in by_length)
                (drop,) = gpt2.rows(measure="ablation drop", **which)
                assert drop["mean"] == pytest.approx(intact["mean"] - mean)
                assert drop["n"] == 20
                (in_summary,) = [
                    ablation["drop"][what]
                    for ablation in gpt2.summary["ablation"]
                    if (ablation["heads"], ablation["method"]) == (heads, method)
                ]
                assert in_summary == pytest.approx(drop["mean"])


def test_maps_and_trees_are_there_for_drawing(gpt2):
    model = model_named("gpt2")
    actions = TASK.draw(20, seed=0).actions
    maps = anatomy(model).attention_weights(TASK.encode(actions[:1]))
    assert gpt2.arrays["top_maps"].shape == (3, 9, 9)
    for (layer, head), attended in zip(
        gpt2.arrays["top_maps_heads"], gpt2.arrays["top_maps"], strict=True
    ):
        assert np.allclose(attended, maps[layer - 1, 0, head, 1:, 1:], atol=1e-6)
    odd = TASK.group.parity[actions[0]] == 1
    assert gpt2.arrays["top_maps_odd"].tolist() == odd.tolist()
    strongest = maps[:, 0].amax(1)[:, 1:, 1:]
    edges, weights = gpt2.arrays["tree0_edges"], gpt2.arrays["tree0_weights"]
    assert len(edges) == len(weights) > 0
    for (layer, source, target), weight in zip(edges, weights, strict=True):
        assert weight == pytest.approx(strongest[layer - 1, target, source].item(), abs=1e-6)
        assert weight > 0.2
    assert gpt2.arrays["tree2_actions"].tolist() == actions[2].tolist()
    assert "tree3_edges" not in gpt2.arrays


def test_trees_are_summed_up(gpt2):
    for name in ("depth", "coverage", "distance"):
        (row,) = gpt2.rows(measure="tree", name=name)
        assert row["n"] == 6
        assert gpt2.summary[f"tree_{name}"] == pytest.approx(row["mean"])
    reached = gpt2.rows(measure="tree", name="reached")
    assert [row["layer"] for row in reached] == [0, 1, 2, 3]
    assert reached[-1]["mean"] == 1
    assert reached[0]["mean"] == pytest.approx(9 * gpt2.summary["tree_coverage"])
    assert [row["layer"] for row in gpt2.rows(name="span")] == [1, 2, 3]


def test_scores_by_chance_are_those_of_other_actions(gpt2, monkeypatch):
    """Calling other actions odd from the start gives the scores that stand beside the true ones."""
    other = np.array([True, True, False, False, True, False])
    monkeypatch.setattr(lens, "relabelings", lambda *_: other[None])
    chance = attention(model_named("gpt2"), TASK, SMALL)
    monkeypatch.setattr(lens, "relabelings", lambda *_: np.zeros((0, 6), dtype=bool))
    monkeypatch.setattr(lens, "outside_kernel", lambda _: other)
    true = attention(model_named("gpt2"), TASK, SMALL)
    by_chance = [row["mean"] for row in chance.rows(measure="by chance")]
    assert by_chance == [row["mean"] for row in true.rows(measure="head score")]
    assert chance.summary["top_score_by_chance"] == pytest.approx(max(by_chance))
    assert np.array_equal(chance.arrays["scores"], gpt2.arrays["scores"])
    best = chance.summary["top_heads"][0]["score"]
    stands_out = not any("no parity head" in note for note in chance.notes)
    assert stands_out == (best > max(by_chance))


@pytest.mark.parametrize("name", ["gpt2", "opt"])
def test_pieces_make_no_difference(name, monkeypatch):
    together = attention(model_named(name), TASK, SMALL)
    monkeypatch.setattr(attention_maps, "PIECE_BYTES", 1)
    alone = attention(model_named(name), TASK, SMALL)
    for row, expected in zip(together.rows(), alone.rows(), strict=True):
        assert row["mean"] == pytest.approx(expected["mean"], abs=0.01), row
    assert np.allclose(together.arrays["scores"], alone.arrays["scores"])
    assert np.array_equal(together.arrays["tree1_edges"], alone.arrays["tree1_edges"])


def test_a_model_without_attention_says_so(tmp_path):
    config = transformers.MambaConfig(
        vocab_size=7, hidden_size=16, num_hidden_layers=2, state_size=4
    )
    result = attention(transformers.MambaForCausalLM(config).eval(), TASK, SMALL)
    assert result.table().num_rows == 0
    assert "do not have attention" in result.notes[0]
    result.save(tmp_path)
    assert LensResult.load(tmp_path, "attention").table().num_rows == 0


@pytest.mark.parametrize(
    ("group", "spec", "quotient", "note"),
    [
        ("A4", {}, "Z3", "A4 has no parity"),
        ("A5", {}, None, "no other proper quotient"),
        ("S3", {"first": 9}, None, "9 actions are too few"),
    ],
)
def test_without_parity_the_tree_still_runs(group, spec, quotient, note):
    task = word_problem(group, 9)
    shape = {"vocab_size": task.vocabulary.size, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = toy("gpt2", shape | {"bos_token_id": None, "eos_token_id": None})
    result = attention(model, task, dataclasses.replace(SMALL, **spec))
    assert result.summary["quotient"] == quotient
    assert any(note in each for each in result.notes)
    assert {row["name"] for row in result.rows(measure="head score")} == {quotient} - {None}
    assert bool(result.rows(measure="ablation")) == (quotient is not None)
    assert result.rows(measure="tree", name="distance")[0]["mean"] is not None


def test_a_length_beyond_the_positions_is_refused():
    with pytest.raises(StatetraceError, match=r"length 64 needs 65 positions, but .* has 64"):
        attention(model_named("gpt2"), TASK, dataclasses.replace(SMALL, last=64))


def test_fewer_sequences_than_asked_for_are_noted():
    drawn = TASK.draw(8, seed=1)
    task = dataclasses.replace(TASK, held_out=Sequences(drawn.actions, drawn.states))
    result = attention(model_named("gpt2"), task, SMALL)
    assert any("8 sequences of length 9 instead of 20" in note for note in result.notes)
    assert {row["n"] for row in result.rows(measure="ablation drop")} == {8}


def test_an_untrained_model_and_too_few_other_heads_are_noted():
    shape = {"vocab_size": 7, "n_embd": 18, "n_layer": 1, "n_head": 3}
    model = toy("gpt2", shape | {"bos_token_id": None, "eos_token_id": None})
    result = attention(model, TASK, dataclasses.replace(SMALL, ablation_sizes=(1, 2, 4)))
    notes = " / ".join(result.notes)
    assert "low accuracy" in notes
    assert "at most 3 heads" in notes
    assert "no control for ablations of size 2" in notes
    assert {row["heads"] for row in result.rows(measure="ablation drop")} == {
        "top 1", "top 2", "control 1",
    }  # fmt: skip


def test_no_ablations_where_none_are_asked_for():
    spec = dataclasses.replace(SMALL, ablation_sizes=(), relabelings=0, tree_examples=0)
    result = attention(model_named("gpt2"), TASK, spec)
    assert set(result.columns["measure"]) == {"head score", "attended"}
    assert "ablation" not in result.summary


def test_tokens_that_attention_is_spread_over():
    """Even attention to k actions is k; what a start marker gets is one more."""
    even = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [1 / 3] * 3 + [0.0], [0.25] * 4])
    assert attention_maps.attended(even).tolist() == pytest.approx([1, 2, 3, 4])
    assert attention_maps.attended(even / 2)[0] == pytest.approx(2)  # half goes to the marker
    assert attention_maps.attended(even * 0).tolist() == pytest.approx([1] * 4)
    between = attention_maps.attended(torch.tensor([[0.9, 0.1]]))
    assert 1 < between < 2


def test_layers_whose_attention_is_sparse_are_told(monkeypatch):
    """A model that looks at one action in its second layer and evenly in its first."""
    model = model_named("gpt2")
    evenly = torch.tril(torch.ones(9, 9)) / torch.arange(1, 10)[:, None]
    maps = torch.stack((evenly, torch.eye(9)))[:, None, None]  # [L, 1, 1, T, T]
    monkeypatch.setattr(
        attention_maps, "maps_of", lambda *given: maps.expand(2, len(given[2]), 2, 9, 9)
    )
    spec = dataclasses.replace(SMALL, ablation_sizes=(), tree_examples=0)
    attended = attention(model, TASK, spec).summary["attended"]
    assert attended["mean"] == pytest.approx([5, 1])
    assert attended["error"] == pytest.approx([0, 0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"examples": 0},
        {"first": 0},
        {"last": 5},
        {"confidence": 1.0},
        {"margin": -1.0},
        {"weight": 1.0},
        {"top_target": 0},
        {"ablation_sizes": (1, 0)},
        {"tree_examples": 101},
    ],
    ids=str,
)
def test_nonsense_is_refused_at_construction(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(StatetraceError) as error:
        AttentionSpec(**wrong)
    assert name in str(error.value)
    assert str(value) in str(error.value)


def test_ranking_goes_by_the_mean_then_by_place():
    scores = np.array([[[1, 3], [5, 5]], [[2, 2], [0, 9]]], dtype=float)  # [L, H, n]
    assert [str(site) for site in rank_heads(scores)] == [
        "head 1.1", "head 2.1", "head 1.0", "head 2.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (None, None, None, None, 0)),
        ([np.nan, 3.0], (3.0, None, None, None, 1)),
        ([1.0, 3.0, np.nan], (2.0, 2**0.5, 0.04, 3.96, 2)),
    ],
)
def test_spread_leaves_out_what_is_missing(values, expected):
    for value, wanted in zip(spread(np.array(values)), expected, strict=True):
        assert value == (wanted if wanted is None else pytest.approx(wanted, abs=1e-3))
