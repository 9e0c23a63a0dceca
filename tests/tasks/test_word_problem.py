"""Tokens, splits and batches of the word problem."""

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.tasks.batch import UNSUPERVISED, batch_rows
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem, word_problem


def rows_of(sequences):
    return {tuple(row) for row in sequences.actions.tolist()}


@pytest.mark.parametrize(
    ("name", "length", "n"),
    [("S3", 2, 36), ("Z2", 3, 8), ("Z2", 1, 2), ("S3", 4, 500), ("S5", 10, 2000), ("S3", 6, None)],
)
def test_splits_never_share_a_sequence(name, length, n):
    task = word_problem(name, length)
    train, analysis = task.splits(n, 0.25, seed=1)
    assert len(train) + len(analysis) == (n or 6**6)
    assert len(analysis) == max(1, round((n or 6**6) * 0.25))
    assert not rows_of(train) & rows_of(analysis)


def test_a_split_that_would_be_empty_is_refused():
    with pytest.raises(StatetraceError, match=r"analysis_fraction 0\.9"):
        word_problem("Z2", 1).splits(2, 0.9, seed=0)


def test_batch_layout_with_and_without_start_marker():
    actions = torch.tensor([[1, 1, 2], [5, 0, 3]])
    marked = word_problem("S3", 3).batch(actions)
    assert marked.tokens.tolist() == [[6, 1, 1, 2], [6, 5, 0, 3]]
    assert marked.mask.tolist() == [[False, True, True, True]] * 2
    # 132 132 = 123, then 213; every state stands at its own action, the last one included
    assert marked.targets[0].tolist() == [UNSUPERVISED, 1, 0, 2]
    plain = word_problem("S3", 3, start_marker=False).batch(actions)
    assert plain.tokens.tolist() == actions.tolist()
    assert plain.mask.all()
    assert torch.equal(plain.targets, marked.targets[:, 1:])
    own = word_problem("S3", 3, start_marker=False, own_first_token=True)
    assert own.vocabulary.size == 12
    assert own.batch(actions).tokens.tolist() == [[7, 1, 2], [11, 0, 3]]
    assert torch.equal(own.batch(actions).targets, plain.targets)


def test_foreign_token_ids():
    task = word_problem("Z2", 2)
    task = WordProblem(task.group, 2, Vocabulary((40, 7), marker=3))
    batch = task.batch(torch.tensor([[1, 1]]))
    assert batch.tokens.tolist() == [[3, 7, 7]]
    assert batch.targets.tolist() == [[UNSUPERVISED, 7, 40]]
    logits = torch.zeros(1, 3, 50)
    logits[0, 1, 7], logits[0, 2, 40], logits[0, :, 12] = 1, 1, 9  # 12 stands for nothing
    assert task.read_out(logits).argmax(-1).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("elements", "marker", "quoted"), [((0, 1, 1), None, "1"), ((0, 1), 1, "1"), ((0, -4), 2, "-4")]
)
def test_bad_token_ids_are_quoted(elements, marker, quoted):
    with pytest.raises(StatetraceError, match=f"token id {quoted}"):
        Vocabulary(elements, marker)


def test_a_token_for_every_element():
    with pytest.raises(StatetraceError, match=r"5 token ids .* 6 elements of S3"):
        WordProblem(word_problem("S3", 4).group, 4, Vocabulary((0, 1, 2, 3, 4), None))


def test_actions_must_reach_every_state():
    with pytest.raises(StatetraceError, match="'132' reach only 2 of the 6"):
        word_problem("S3", 4, actions="132")
    assert word_problem("S3", 4, actions="132,213").space == 16


@pytest.mark.parametrize("dtype_group", ["S3", "Z300"])
def test_split_batches_agree_with_the_table(dtype_group):
    task = word_problem(dtype_group, 5)
    train, _ = task.splits(500, 0.1, seed=0)
    batch = task.split(train).batch(seed=3, index=2, size=64)
    actions = batch.tokens[:, 1:]
    assert torch.equal(batch.targets[:, 1:], task.states(actions))
    assert rows_of(train) >= {tuple(row) for row in actions.tolist()}


def test_batches_are_a_function_of_seed_and_index():
    n, size = 100, 32
    stream = np.concatenate([batch_rows(n, size, 5, index) for index in range(25)])
    for epoch in range(8):  # every epoch visits every row once, whatever the batch size
        assert sorted(stream[epoch * n : (epoch + 1) * n]) == list(range(n))
    assert not np.array_equal(stream[:n], stream[n : 2 * n])
    assert np.array_equal(batch_rows(n, size, 5, 7), stream[7 * size : 8 * size])
    assert not np.array_equal(batch_rows(n, size, 6, 7), batch_rows(n, size, 5, 7))


def test_a_batch_larger_than_the_data():
    rows = batch_rows(10, 64, 0, 3)
    assert len(rows) == 64
    assert np.bincount(rows, minlength=10).min() >= 5


def test_parts_of_a_batch_make_the_batch():
    task = word_problem("S3", 6)
    split = task.split(task.splits(400, 0.1, seed=0)[0])
    whole = split.batch(1, 4, 32)
    parts = [split.batch(1, 4, 32, slice(k, k + 8)) for k in range(0, 32, 8)]
    assert torch.equal(torch.cat([part.tokens for part in parts]), whole.tokens)


@pytest.mark.parametrize(("n", "length"), [(400, 12), (7, 3), (None, 4)])
def test_the_analysis_split_alone_is_that_of_both_splits(n, length):
    task = word_problem("S3", length, actions="213,132")
    _, analysis = task.splits(n, 0.1, seed=3)
    alone = task.analysis_split(n, 0.1, seed=3)
    assert np.array_equal(alone.actions, analysis.actions)
    assert np.array_equal(alone.states, analysis.states)
    assert alone.actions.dtype == analysis.actions.dtype
