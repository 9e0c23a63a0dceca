"""Documents come from the topic model they are said to come from."""

import numpy as np
import pytest
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.tasks.batch import UNSUPERVISED
from statetrace.tasks.documents import Documents, next_tokens
from statetrace.tasks.sentences import sentences
from statetrace.tasks.topics import TopicModel
from statetrace.tasks.vocabulary import Vocabulary

S3 = group("S3")


def shares(documents: np.ndarray, order: int) -> np.ndarray:
    """How often each element occurs in each document, [n, order]."""
    return np.stack([(documents == g).mean(axis=1) for g in range(order)], axis=1)


@pytest.mark.parametrize("name", ["paper-1", "paper-2"])
def test_documents_match_the_papers_table(name):
    """The mean of the documents' distributions, and how they vary together: with mixtures from
    Dirichlet(a) both are known in closed form."""
    model = TopicModel.paper(name, S3)
    topics, order = model.table.shape
    n, length = 20_000, 200
    frequencies = shares(model.draw(np.random.default_rng(0), n, length), order)
    assert frequencies.mean(0) == pytest.approx(model.table.mean(0), abs=0.01)
    a, total = model.mixture, model.mixture * topics
    moments = np.full((topics, topics), a * a) / (total * (total + 1))
    moments[np.diag_indices(topics)] = a * (a + 1) / (total * (total + 1))
    expected = model.table.T @ moments @ model.table  # E[p p'] of a document's distribution p
    # two tokens of one document are independent given p
    pairs = frequencies.T @ frequencies * length / (n * (length - 1))
    pairs -= np.diag(frequencies.mean(0)) / (length - 1)
    assert pairs == pytest.approx(expected, abs=0.01)


def test_a_document_of_one_topic_has_that_topics_tokens():
    model = TopicModel.paper("paper-1", S3, mixture=1e-6)
    frequencies = shares(model.draw(np.random.default_rng(1), 400, 2000), 6)
    distance = np.abs(frequencies[:, None] - model.table[None]).max(-1)  # [documents, topics]
    assert distance.min(1).max() < 0.05
    assert set(distance.argmin(1)) == {0, 1, 2, 3}


@pytest.mark.parametrize("notation", ["moves", "receives"])
def test_the_tables_columns_are_labels(notation):
    """321 makes up 84.5% of the first topic, whichever index it has."""
    of = group("S3", notation)
    table = TopicModel.paper("paper-1", of).table
    assert table[0, of.index("321")] == pytest.approx(0.845, abs=1e-3)
    assert table[1, of.index("213")] == pytest.approx(0.663, abs=1e-3)
    assert table.sum(1) == pytest.approx(1)
    second = TopicModel.paper("paper-2", of).table
    assert second[1, of.index("312")] == pytest.approx(0.253, abs=1e-3)


def test_a_drawn_model_depends_on_its_seed_and_is_sparse():
    first, again, other = (TopicModel.drawn(120, seed) for seed in (3, 3, 4))
    assert np.array_equal(first.table, again.table)
    assert not np.array_equal(first.table, other.table)
    assert first.table.shape == (4, 120)
    assert (np.sort(first.table, axis=1)[:, -20:].sum(1) > 0.8).all()
    assert first.draw(np.random.default_rng(0), 5, 7).max() < 120


def test_tables_of_other_groups_and_names_are_refused():
    with pytest.raises(StatetraceError, match=r"'paper-1' is for the elements of S3, not .* S4"):
        TopicModel.paper("paper-1", group("S4"))
    with pytest.raises(StatetraceError, match="'paper-3' is unknown; use paper-1 or paper-2"):
        TopicModel.paper("paper-3", S3)


def test_a_table_that_is_written_out():
    model = TopicModel.written("2 0 0 0 0 0; 0 1 1 0 0 2", S3, mixture=1e-6)
    documents = model.draw(np.random.default_rng(0), 400, 100)
    constant = (documents == 0).all(axis=1)
    assert 0.4 < constant.mean() < 0.6
    frequencies = shares(documents[~constant], 6).mean(0)
    assert frequencies == pytest.approx([0, 0.25, 0.25, 0, 0, 0.5], abs=0.02)
    for bad in ("1 0", "1 0 0 0 0 x", "-1 2 0 0 0 0", "0 0 0 0 0 0; 1 1 1 1 1 1", "nan 1 1 1 1 1"):
        with pytest.raises(StatetraceError, match=f"table '{bad}' is not valid; write a row"):
            TopicModel.written(bad, S3)


@pytest.mark.parametrize("marker", [True, False])
def test_every_token_is_the_target_one_position_earlier(marker):
    vocabulary = Vocabulary.plain(6, marker)
    batch = next_tokens(torch.tensor([[4, 0, 5]]), vocabulary)
    if marker:
        assert batch.tokens.tolist() == [[6, 4, 0, 5]]
        assert batch.targets.tolist() == [[4, 0, 5, UNSUPERVISED]]
    else:
        assert batch.tokens.tolist() == [[4, 0, 5]]
        assert batch.targets.tolist() == [[0, 5, UNSUPERVISED]]
    assert torch.equal(batch.mask, batch.targets != UNSUPERVISED)


def test_batches_are_a_function_of_seed_and_index():
    source = Documents(TopicModel.paper("paper-1", S3).draw, 9, Vocabulary.plain(6), "cpu")
    whole = source.batch(5, 2, 8)
    assert torch.equal(whole.tokens, source.batch(5, 2, 8).tokens)
    assert torch.equal(whole.tokens[2:4], source.batch(5, 2, 8, slice(2, 4)).tokens)
    for other in (source.batch(6, 2, 8), source.batch(5, 3, 8)):
        assert not torch.equal(whole.tokens, other.tokens)
    assert source.batch(5, 2, 8, length=4).tokens.shape == (8, 5)


@pytest.mark.parametrize("form", ["tokens", "sentences"])
def test_batches_of_several_seeds_are_theirs_one_by_one(form):
    vocabulary = Vocabulary.plain(6) if form == "tokens" else sentences(S3, 3)
    source = Documents(TopicModel.paper("paper-1", S3).draw, 9, vocabulary, "cpu")
    each = [source.batch(seed, 2, 8, length=4) for seed in (5, 0)]
    both = source.batches_of((5, 0), 2, 8, length=4)
    assert torch.equal(both.tokens, torch.cat([batch.tokens for batch in each]))
    assert torch.equal(both.targets, torch.cat([batch.targets for batch in each]))
