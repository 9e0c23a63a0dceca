"""The patching lens: its metrics against their definitions, its pairs, splits and notes."""

from typing import Any

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.pairs import draw_pairs
from statetrace.lenses.parts.patched_answers import nld
from statetrace.lenses.patching import METRICS, patching
from statetrace.lenses.result import LensResult
from statetrace.lenses.specs import PAPER_GRIDS, PatchingSpec
from statetrace.mechanisms.compatibility import incompatibility
from statetrace.models import ModelSpec, build
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem, word_problem
from tests.interventions.cases import one_cell_at_a_time
from tests.models.conftest import GENERIC, toy

LENGTH = 6
PREFIX, SUFFIX, WINDOW = (grid.name for grid in PAPER_GRIDS)


def noisy(task: WordProblem, name: str = "gpt2", seed: int = 0) -> Any:
    """A random model whose answers depend on what it reads; it has three layers."""
    size = {"layers": 3, "width": 32, "heads": 4}
    model = build(ModelSpec(name, **size), task.vocabulary.size + 2, 16, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture(scope="module")
def task() -> WordProblem:
    return word_problem("S3", LENGTH)


@pytest.fixture(scope="module")
def model(task) -> Any:
    return noisy(task)


@pytest.fixture(scope="module")
def result(model, task) -> LensResult:
    return patching(model, task, PatchingSpec(pairs=60))


# Metrics


def test_nld_by_hand():
    """log p(ŷ) - log p(ŷ'): 3 on the clean input, -1 on the corrupted, 2 with the patch."""
    patched, clean, corrupted = np.array([2.0]), np.array([3.0]), np.array([-1.0])
    assert nld("substitution", patched, clean, corrupted) == pytest.approx(3 / 4)
    assert nld("deletion", patched, clean, corrupted) == pytest.approx(1 / 3)
    over = nld("substitution", np.array([4.0, -2.0]), clean, corrupted)
    assert over == pytest.approx([1.25, -0.25])  # not clipped


@pytest.mark.parametrize("grid", [*PAPER_GRIDS, GridSpec("window", "substitution", "mlp_out", 2)])
def test_numbers_are_the_definitions_applied_to_plain_forward_passes(model, task, grid):
    result = patching(model, task, PatchingSpec(pairs=40, grids=(grid,), corrupt_at=1))
    clean, corrupted = (
        task.encode(result.arrays[name]) for name in ("clean_actions", "corrupted_actions")
    )
    logits = one_cell_at_a_time(model, clean, corrupted, grid, offset=1).double()
    p = logits.softmax(-1)  # over the whole vocabulary, which is larger than the group
    with torch.no_grad():
        p_clean, p_corrupted = (
            model(x).logits[:, -1].double().softmax(-1) for x in (clean, corrupted)
        )
    yes, no = p_clean[:, :6].argmax(-1), p_corrupted[:, :6].argmax(-1)
    pair = torch.arange(len(clean))
    assert len(clean) > 5
    assert result.arrays["clean_answer"].tolist() == yes.tolist()
    assert result.arrays["corrupted_answer"].tolist() == no.tolist()

    def ld(p: torch.Tensor) -> torch.Tensor:
        return (p[..., pair, yes] / p[..., pair, no]).log()

    if grid.what == "substitution":
        expected = (ld(p) - ld(p_corrupted)) / (ld(p_clean) - ld(p_corrupted))
    else:
        expected = (ld(p_clean) - ld(p)) / ld(p_clean)
    close = {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(result.arrays[f"{grid.name}.nld"], expected, **close)
    probability = result.arrays[f"{grid.name}.probability"]
    np.testing.assert_allclose(probability, p[..., pair, yes], **close)


def test_the_whole_prefix_restores_the_clean_answer(result):
    values = result.arrays[f"{PREFIX}.nld"]  # [rows, columns, pairs]
    assert values.shape[:2] == (4, LENGTH)
    np.testing.assert_allclose(values[:, -1], 1, atol=1e-5)
    np.testing.assert_allclose(values[0], 1, atol=1e-5)  # the first action, in every prefix
    np.testing.assert_allclose(values[-1, :-1], 0, atol=1e-5)  # nothing reads the top layer
    assert np.abs(values[1:-1, :-1] - 1).max() > 0.1


def test_nothing_happens_before_the_corrupted_action(model, task):
    spec = PatchingSpec(pairs=40, corrupt_at=3, grids=(PAPER_GRIDS[0], GridSpec("window")))
    result = patching(model, task, spec)
    assert result.summary["pairs"] > 5
    prefix, window = (result.arrays[f"{grid.name}.nld"] for grid in spec.grids)
    for values in (prefix, window):
        np.testing.assert_allclose(values[:, :3], 0, atol=1e-6)
    np.testing.assert_allclose(prefix[0, 3:], 1, atol=1e-5)
    np.testing.assert_allclose(window[0, 3], 1, atol=1e-5)
    np.testing.assert_allclose(window[0, 4:], 0, atol=1e-5)


def test_deleting_at_the_top_leaves_the_answer_alone(result):
    np.testing.assert_allclose(result.arrays[f"{SUFFIX}.nld"][-1], 0, atol=1e-5)
    window = result.arrays[f"{WINDOW}.nld"]
    np.testing.assert_allclose(window[-1, :-1], 0, atol=1e-5)
    assert np.abs(window[0]).min() > 0


# The table


def test_the_table_is_the_arrays_pair_by_pair(result):
    parity = np.array([0, 1, 1, 0, 0, 1])  # of 123 132 213 231 312 321
    first, second = (parity[result.arrays[f"{name}_state"]] for name in ("clean", "corrupted"))
    splits = {"all": first >= 0, "same parity": first == second, "opposite parity": first != second}
    assert set(result.columns["split"]) == set(splits)
    for grid in PAPER_GRIDS:
        width = 1 if grid.where == "window" else None
        for metric in METRICS:
            values = result.arrays[f"{grid.name}.{metric}"].astype(float)
            for split, chosen in splits.items():
                rows = result.rows(
                    where=grid.where,
                    what=grid.what,
                    metric=metric,
                    split=split,
                    window=width,
                )
                assert len(rows) == values.shape[0] * values.shape[1]
                for row in rows:
                    assert (row["kind"], row["head"]) == ("resid", None)
                    of_pairs = values[row["layer"], row["position"], chosen]
                    n = len(of_pairs)
                    error = 1.96 * of_pairs.std(ddof=1) / n**0.5
                    assert row["n"] == n > 5
                    assert row["mean"] == pytest.approx(of_pairs.mean(), rel=1e-3, abs=1e-5)
                    assert row["std"] == pytest.approx(of_pairs.std(ddof=1), rel=1e-3, abs=1e-5)
                    low, high = row["mean"] - error, row["mean"] + error
                    assert (row["low"], row["high"]) == pytest.approx(
                        (low, high), rel=1e-3, abs=1e-4
                    )


def test_heads_have_their_own_rows(model, task):
    grid = GridSpec("prefix", "deletion", "head")
    result = patching(model, task, PatchingSpec(pairs=30, grids=(grid,)))
    rows = result.arrays[f"{grid.name}.rows"].tolist()
    assert rows == [[layer, head] for layer in (1, 2, 3) for head in range(4)]
    row = result.rows(layer=2, head=3, position=1, metric="nld", split="all")
    assert len(row) == 1
    expected = result.arrays[f"{grid.name}.nld"][7, 1].mean()
    assert row[0]["mean"] == pytest.approx(expected, rel=1e-4)


def test_quotients_of_choice():
    task = word_problem("S4", 4)
    spec = PatchingSpec(pairs=8, quotients=("S3",), grids=PAPER_GRIDS[:1])
    result = patching(noisy(task), task, spec)
    assert set(result.columns["split"]) == {"all", "same S3", "different S3"}


# What people should be told


def rigged(task: WordProblem, constant: bool) -> Any:
    """Blocks that add nothing: the answer is the last action, or (constant) the first element."""
    model = build(ModelSpec("gpt2", layers=2, width=32, heads=2), task.vocabulary.size, 8, 0)
    with torch.no_grad():
        for block in model.transformer.h:
            for parameter in block.parameters():
                parameter.zero_()
        model.transformer.wpe.weight.zero_()
        model.transformer.wte.weight.copy_(torch.eye(32)[: task.vocabulary.size])
        if constant:
            model.transformer.ln_f.weight.zero_()
    return model


def test_pairs_with_equal_answers_are_left_out_and_counted():
    """The rigged model answers with the last action, so it tells pairs apart only there."""
    task = word_problem("S3", 3)
    model = rigged(task, constant=False)
    spec = PatchingSpec(pairs=50, grids=(PAPER_GRIDS[0],), corrupt_at=2)
    result = patching(model, task, spec)
    assert (result.summary["pairs"], result.summary["pairs_left_out"]) == (50, 0)
    assert not any("left out" in note for note in result.notes)
    result = patching(model, task, PatchingSpec(pairs=50, grids=(PAPER_GRIDS[0],), corrupt_at=1))
    assert (result.summary["pairs"], result.summary["pairs_left_out"]) == (0, 50)
    assert any("50 of 50 pairs were excluded" in note for note in result.notes)


def test_some_pairs_left_out_leave_the_others_alone(task):
    """Of a model that often repeats itself: every mean is a number, over the pairs that count."""
    model = noisy(task, "pythia")
    spec = PatchingSpec(pairs=60, corrupt_at=2)
    result = patching(model, task, spec)
    pairs = draw_pairs(task, 60, LENGTH, 2, spec.seed)
    with torch.no_grad():
        yes, no = (
            task.read_out(model(tokens).logits)[:, -1].argmax(-1)
            for tokens in pairs.tokens(task, "cpu")
        )
    kept = (yes != no).numpy()
    assert 0 < kept.sum() < 60
    assert result.summary["pairs"] == kept.sum()
    assert result.summary["pairs_left_out"] == 60 - kept.sum()
    assert (result.arrays["clean_actions"] == pairs.clean[kept]).all()
    assert np.isfinite(result.columns["mean"]).all()
    assert {row["n"] for row in result.rows(split="all")} == {kept.sum()}


def test_a_model_that_always_says_the_same_still_runs():
    task = word_problem("S3", 3)
    result = patching(rigged(task, constant=True), task, PatchingSpec(pairs=20))
    assert result.summary["pairs_left_out"] == 20
    assert set(result.columns["n"]) == {0}
    assert np.isnan(result.columns["mean"]).all()
    assert result.arrays[f"{PREFIX}.nld"].shape == (3, 3, 0)
    assert any("no pairs with all, same parity" in note for note in result.notes)


def test_fewer_pairs_than_asked_for():
    task = word_problem("Z3", 2)
    result = patching(noisy(task), task, PatchingSpec(pairs=200, grids=PAPER_GRIDS[:1]))
    assert result.summary["pairs"] + result.summary["pairs_left_out"] == 9
    assert any("9 pairs instead of 200" in note for note in result.notes)
    assert set(result.columns["split"]) == {"all"}


def test_families_without_a_fast_road():
    task = WordProblem(word_problem("S3", 4).group, 4, Vocabulary((6, 5, 4, 3, 2, 1), None))
    model = toy(*GENERIC["qwen2"])
    result = patching(model, task, PatchingSpec(pairs=10))
    values = result.arrays[f"{PREFIX}.nld"]
    assert values.shape[-1] > 2
    np.testing.assert_allclose(values[:, -1], 1, atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pairs": 0}, "pairs 0 is too small"),
        ({"grids": ()}, "grids '' are invalid"),
        ({"grids": PAPER_GRIDS[:1] * 2}, "use one or more different grids"),
    ],
)
def test_nonsense_is_refused(fields, message):
    with pytest.raises(StatetraceError, match=message):
        PatchingSpec(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"length": 2000}, "length 2000 needs 2001 positions, but the model has 1024"),
        ({"corrupt_at": 6}, "corrupt_at 6 is outside the sequence; use 0 to 5"),
        ({"length": 1}, "1 actions are too few for a suffix"),
        ({"grids": (GridSpec(rows=(Site("resid", 9),)),)}, "no site 'resid 9'"),
        ({"quotients": ("Z7",)}, "S3 has no quotient 'Z7'"),
    ],
)
def test_requests_that_do_not_fit(task, fields, message):
    with pytest.raises(StatetraceError, match=message):
        patching(noisy(task), task, PatchingSpec(pairs=4, **fields))


# Settings of the two protocols


def test_saved_logits_give_the_nld_of_the_table(model, task):
    result = patching(model, task, PatchingSpec(pairs=20, grids=(PAPER_GRIDS[0],), logits=True))
    logits = result.arrays[f"{PREFIX}.logits"].astype(float)  # [R, C, P, states]
    clean, corrupted = (result.arrays[f"{name}_answer"] for name in ("clean", "corrupted"))
    pairs = np.arange(len(clean))
    difference = logits[..., pairs, clean] - logits[..., pairs, corrupted]
    # the whole prefix is the clean run, at the top the last action alone is the corrupted one
    of_clean, of_corrupted = difference[0, -1], difference[-1, 0]
    expected = nld("substitution", difference, of_clean, of_corrupted)
    assert expected == pytest.approx(result.arrays[f"{PREFIX}.nld"], abs=1e-3)


def test_medians_are_those_of_the_pairs(model, task, result):
    spec = PatchingSpec(pairs=60, average="median")
    medians = patching(model, task, spec)
    assert np.array_equal(medians.arrays[f"{PREFIX}.nld"], result.arrays[f"{PREFIX}.nld"])
    shown = medians.grid(
        where="prefix", what="substitution", kind="resid", metric="nld", split="all"
    )
    by_pair = result.arrays[f"{PREFIX}.nld"].astype(float)
    assert shown == pytest.approx(np.median(by_pair, -1), rel=1e-4, abs=1e-5)
    for row in medians.rows(metric="nld", split="all", where="prefix"):
        assert row["low"] <= row["mean"] <= row["high"]
    reason = incompatibility(medians, task.group, LENGTH)
    assert reason is not None
    assert "average median instead of mean" in reason
