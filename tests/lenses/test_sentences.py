"""Every lens on a model that reads sentences: one column, row or position for each sentence."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.attention import attention
from statetrace.lenses.depth import depth
from statetrace.lenses.generalization import generalization
from statetrace.lenses.geometry import geometry
from statetrace.lenses.parts.activations import residuals
from statetrace.lenses.parts.answers import answers, check_fits
from statetrace.lenses.parts.attention_maps import maps_of
from statetrace.lenses.parts.probing_data import Data, choose_places, features
from statetrace.lenses.patching import patching
from statetrace.lenses.probing import probing
from statetrace.lenses.specs import (
    AttentionSpec,
    DepthSpec,
    GeneralizationSpec,
    GeometrySpec,
    PatchingSpec,
    ProbingSpec,
)
from statetrace.models import ModelSpec, anatomy, build
from statetrace.tasks.sentences import sentences
from statetrace.tasks.word_problem import WordProblem, word_problem
from tests.interventions.test_capture import hooks

LENGTH = 6
STRIDE = 9  # with two wordings
GRIDS = (
    GridSpec("prefix"),
    GridSpec("suffix", "deletion"),
    GridSpec("window", "deletion", window=2),
    GridSpec("prefix", rows="head"),
)


@pytest.fixture(scope="module")
def task() -> WordProblem:
    plain = word_problem("S3", LENGTH)
    return dataclasses.replace(plain, vocabulary=sentences(plain.group, wordings=2))


@pytest.fixture(scope="module", params=["gpt2", "pythia", "gemma"])
def model(request: pytest.FixtureRequest, task: WordProblem) -> Any:
    """Random, but what it answers depends on what it reads."""
    spec = ModelSpec(request.param, layers=2, width=32, heads=2)
    made = build(spec, task.vocabulary.size, task.vocabulary.tokens(2 * LENGTH), seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:  # large biases would drown what it reads
                parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator))
    return made


def columns_of(result: Any, where: str, kind: str = "resid") -> set[int]:
    return {row["position"] for row in result.rows(where=where, kind=kind)}


def test_columns_of_a_patching_grid_are_sentences(model, task):
    result = patching(model, task, PatchingSpec(pairs=100, grids=GRIDS, corrupt_at=5))
    assert columns_of(result, "prefix") == columns_of(result, "prefix", "head") == set(range(6))
    assert columns_of(result, "suffix") == columns_of(result, "window") == set(range(5))
    assert result.summary["tokens_per_action"] == task.vocabulary.stride == STRIDE
    cell = {"where": "prefix", "layer": 0, "position": 5, "kind": "resid"}
    (everything,) = result.rows(metric="nld", split="all", **cell)
    assert everything["mean"] == pytest.approx(1.0, abs=1e-4)  # all of the clean input


def test_patching_by_token_has_the_sentences_among_its_columns(model, task):
    """A prefix of whole sentences is the same patch, counted in either way."""
    spec = PatchingSpec(pairs=100, grids=GRIDS[:1], corrupt_at=5)
    by_action = patching(model, task, spec)
    by_token = patching(model, task, dataclasses.replace(spec, by="token"))
    name = f"{GRIDS[0].name}.nld"
    tokens, actions = by_token.arrays[name], by_action.arrays[name]  # [rows, columns, pairs]
    assert tokens.shape[1] == LENGTH * STRIDE
    assert (by_action.lens, by_token.lens) == ("patching", "patching-by-token")
    np.testing.assert_allclose(tokens[:, STRIDE - 1 :: STRIDE], actions, atol=2e-3, rtol=2e-3)
    inside = tokens[1, 5 * STRIDE : 6 * STRIDE]  # of the sentence that differs
    assert np.abs(inside - actions[1, 5]).max() > 1e-2


def test_it_is_refused_to_patch_by_anything_else():
    with pytest.raises(StatetraceError, match="by 'word' is unknown; use one of action, token"):
        PatchingSpec(by="word")


def test_probes_look_at_periods(model, task):
    drawn = task.sample(24, seed=0)
    actions, states = (torch.from_numpy(a.astype(np.int64)) for a in (drawn.actions, drawn.states))
    data = Data(actions, states, 16, 2)
    places = choose_places(data, (2, LENGTH), seed=0)
    tokens = task.encode(actions)
    seen = list(features(model, task, data, places, lambda share: None))
    for place, train, _ in seen:
        at = STRIDE * (place.at + 1)  # the marker, and so many sentences
        assert {task.vocabulary.text(tokens[i, at[i]][None]) for i in range(24)} == {"."}
        raw = residuals(model, tokens[:16], at[:16, None])[:, :, 0]
        centred = raw - raw.mean(1, keepdim=True)
        spread = raw.std(1, keepdim=True, correction=0).clamp(min=1e-6)
        # the embedding of a period is the same everywhere, so layer 0 is all rounding
        torch.testing.assert_close(train[1:], (centred / spread)[1:], atol=1e-2, rtol=1e-2)


def test_attention_is_from_periods_to_whole_sentences(model, task):
    actions = task.sample(3, seed=0).actions
    maps = maps_of(model, task, actions)
    assert maps.shape == (2, 3, 2, LENGTH, LENGTH)
    tokens = task.encode(actions)
    weights = anatomy(model).attention_weights(tokens)
    for t in range(LENGTH):
        for s in range(LENGTH):
            looked_at = weights[..., STRIDE * (t + 1), 1 + STRIDE * s : 1 + STRIDE * (s + 1)]
            torch.testing.assert_close(maps[..., t, s], looked_at.sum(-1))
    to_marker = weights[..., STRIDE::STRIDE, 0]
    torch.testing.assert_close(maps.sum(-1) + to_marker, torch.ones_like(to_marker))


def test_the_other_lenses_run_by_sentence(model, task):
    general = generalization(model, task, GeneralizationSpec(sequences=30, bootstrap=5))
    assert {row["length"] for row in general.rows()} == set(range(1, 2 * LENGTH + 1))
    heads = attention(
        model, task, AttentionSpec(examples=4, ablation_examples=8, ablation_sizes=(1,), first=2)
    )
    assert heads.summary["top_heads"]
    assert heads.arrays["top_maps"].shape[1:] == (LENGTH, LENGTH)
    shape = geometry(model, task, GeometrySpec(sequences=60, permutations=5))
    assert {row["layer"] for row in shape.rows()} >= {0, 1, 2}
    spec = ProbingSpec(train=120, test=60, subsets=2, lengths=(2, LENGTH), controls=())
    assert set(probing(model, task, spec).columns["length"]) == {2, LENGTH}
    layers = depth(model, task, DepthSpec(pairs=10, lengths=(2, 4)))
    assert {row["length"] for row in layers.rows()} == {2, 4}
    assert hooks(model) == 0


def test_answers_are_read_at_the_periods(model, task):
    drawn = task.sample(9, seed=0)
    predicted = answers(model, task, drawn, batch=20)
    tokens = task.encode(drawn.actions)
    with torch.no_grad():
        logits = model(tokens).logits[:, STRIDE::STRIDE, list(task.vocabulary.elements)]
    assert np.array_equal(predicted, logits.argmax(-1).numpy())


def test_a_length_is_counted_in_sentences(task):
    spec = ModelSpec("gpt2", layers=1, width=8, heads=1)
    short = build(spec, task.vocabulary.size, 1024, seed=0)  # 1024 positions
    check_fits(short, task, 113)
    with pytest.raises(StatetraceError, match=r"length 114 needs 1027 positions.*length 113"):
        check_fits(short, task, 114)
