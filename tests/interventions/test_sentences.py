"""The patch grid where an action is a sentence: columns are sentences, and both patchers are
exact."""

import dataclasses
from typing import Any

import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.interventions.grid import patch_grid
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.pairs import draw_pairs
from statetrace.tasks.sentences import sentences
from statetrace.tasks.word_problem import WordProblem, word_problem
from tests.interventions.cases import Hooked
from tests.models.conftest import SHAPE, WIDE, toy

LENGTH = 4
SPECS = (
    GridSpec("prefix"),
    GridSpec("suffix", "deletion"),
    GridSpec("window", "deletion", "attn_out"),
    GridSpec("window", "substitution", "mlp_out", window=2),
    GridSpec("context"),
)


@pytest.fixture(scope="module")
def task() -> WordProblem:
    plain = word_problem("S3", LENGTH)
    return dataclasses.replace(plain, vocabulary=sentences(plain.group, wordings=2))


@pytest.fixture(scope="module", params=["gpt2", "gpt_neox"])
def model(request: pytest.FixtureRequest, task: WordProblem) -> Any:
    shape = SHAPE if request.param == "gpt2" else WIDE
    fields = {**shape, "vocab_size": task.vocabulary.size}
    return toy(request.param, fields).double()


def sentences_of(spec: GridSpec) -> list[range]:
    """Which sentences each column overwrites, from the definitions."""
    if spec.where == "prefix":
        return [range(t + 1) for t in range(LENGTH)]
    if spec.where == "suffix":
        return [range(t, LENGTH - 1) for t in range(LENGTH - 1)]
    if spec.where == "context":
        return [range(LENGTH - 1)]
    return [range(t, t + spec.window) for t in range(LENGTH - spec.window + 1)]


@pytest.mark.parametrize("method", ["cached", "hooks"])
@pytest.mark.parametrize("corrupt_at", [0, 2])
def test_columns_are_sentences(model, task, method, corrupt_at):
    pairs = draw_pairs(task, 5, LENGTH, corrupt_at, seed=0)
    clean, corrupted = pairs.tokens(task, "cpu")
    stride, offset = task.vocabulary.stride, task.vocabulary.offset
    found = patch_grid(model, clean, corrupted, SPECS, offset=offset, stride=stride, method=method)
    run = Hooked(model)
    for spec, grid in zip(SPECS, found.grids, strict=True):
        columns = sentences_of(spec)
        assert grid.values.shape[1] == len(columns)
        for row, site in enumerate(grid.sites):
            donor: list[torch.Tensor] = []
            run(clean, site, lambda x, keep=donor: keep.append(x.clone()))
            for column, some in enumerate(columns):
                at = [offset + stride * t + i for t in some for i in range(stride)]
                at = [0, *at] if spec.where in ("prefix", "context") else at  # and the marker

                def change(x: Any, at: Any = at, spec: Any = spec, donor: Any = donor[0]) -> None:
                    x[:, at] = donor[:, at] if spec.what == "substitution" else 0

                base = corrupted if spec.what == "substitution" else clean
                expected = run(base, site, change)
                error = (grid.values[row, column] - expected).abs().max()
                assert error < 1e-10, (spec.name, site, column)


def test_pairs_differ_in_one_sentence_alone(task):
    pairs = draw_pairs(task, 50, LENGTH, 1, seed=0)
    clean, corrupted = pairs.tokens(task, "cpu")
    stride, offset = task.vocabulary.stride, task.vocabulary.offset
    different = (clean != corrupted)[:, offset:].unflatten(1, (LENGTH, stride)).any(-1)
    assert different.tolist() == 50 * [[False, True, False, False]]
    told = [len(task.vocabulary.text(row).split()) for row in (*clean, *corrupted)]
    assert len(set(told)) > 1  # in spite of sentences of different lengths


def test_half_an_action_is_refused():
    with pytest.raises(StatetraceError, match="10 tokens are not 1 tokens and whole actions of 4"):
        GridSpec().windows(10, 1, 4)
