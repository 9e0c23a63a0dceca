"""Actions as sentences: where the periods are, what is predicted there, and how it is tokenized."""

import dataclasses
import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.tasks import tokenizer
from statetrace.tasks.batch import UNSUPERVISED
from statetrace.tasks.phrases import sentence
from statetrace.tasks.sentences import sentences
from statetrace.tasks.word_problem import word_problem


def text_task(name="S3", length=5, wordings=1, notation="receives", start_marker=True, read=None):
    plain = word_problem(name, length, notation=notation, start_marker=start_marker)
    vocabulary = sentences(plain.group, wordings, start_marker, read)
    return dataclasses.replace(plain, vocabulary=vocabulary)


def words(task, ids):
    known = Tokenizer.from_str(task.vocabulary.json)
    return [known.id_to_token(i) for i in ids]


@pytest.mark.parametrize("start_marker", [True, False])
@pytest.mark.parametrize("wordings", [1, 3])
@pytest.mark.parametrize("name", ["S3", "S4"])
def test_states_are_predicted_at_the_periods_and_nowhere_else(name, wordings, start_marker):
    task = text_task(name, wordings=wordings, start_marker=start_marker)
    drawn = task.sample(20, seed=0)
    batch = task.split(drawn).rows(slice(None))
    assert batch.tokens.shape == (20, task.vocabulary.tokens(5))
    period = Tokenizer.from_str(task.vocabulary.json).token_to_id(".")
    assert torch.equal(batch.mask, batch.tokens == period)
    assert torch.equal(batch.mask, batch.targets != UNSUPERVISED)
    answers = words(task, batch.targets[batch.mask].tolist())
    expected = [f"<{task.group.labels[state]}>" for state in drawn.states.ravel()]
    assert answers == expected


def test_the_text_is_the_actions_sentence_by_sentence():
    task = text_task("S4", length=3)
    for row in task.sample(30, seed=1).actions.astype("int64"):
        tokens = task.encode(torch.from_numpy(row)[None])[0]
        labels = [task.group.labels[action] for action in row]
        assert task.vocabulary.text(tokens) == " ".join(sentence(x, "receives") for x in labels)
        assert words(task, tokens[:1].tolist()) == [tokenizer.START]


def test_every_action_fills_the_same_number_of_tokens():
    task = text_task()
    stride = task.vocabulary.stride
    assert stride == 8  # the paper counts 7 tokens of a rotation, without the period
    tokens = task.encode(torch.arange(6)[None])[0]
    for i, label in enumerate(task.group.labels):
        span = words(task, tokens[1 + i * stride : 1 + (i + 1) * stride].tolist())
        sentence_tokens = [token for token in span if token != tokenizer.PAD]
        assert span == [tokenizer.PAD] * (stride - len(sentence_tokens)) + sentence_tokens
        assert len(sentence_tokens) == {"S": 6, "R": 8, "L": 6}[sentence(label, "receives")[0]]


def test_reading_out_looks_at_the_periods():
    task = text_task(length=4)
    actions = torch.tensor([[1, 4, 2, 5], [0, 3, 3, 1]])
    batch = task.batch(actions)
    logits = torch.zeros(*batch.tokens.shape, task.vocabulary.size)
    at, there = batch.mask.nonzero(as_tuple=True)
    logits[at, there, batch.targets[batch.mask]] = 1
    assert torch.equal(task.read_out(logits).argmax(-1), task.states(actions))


def test_wordings_depend_on_row_and_position_alone():
    task = text_task(length=6, wordings=4)
    actions = torch.randint(6, (50, 6), generator=torch.Generator().manual_seed(0))
    whole = task.encode(actions)
    assert torch.equal(task.encode(actions), whole)
    cut = task.vocabulary.tokens(4)
    assert torch.equal(task.encode(actions[:, :4]), whole[:, :cut])
    other = actions.clone()
    other[:, 0] = (other[:, 0] + 1) % 6
    after = task.vocabulary.tokens(1)
    assert torch.equal(task.encode(other)[:, after:], whole[:, after:])
    rows = torch.arange(10, 20)
    assert torch.equal(task.vocabulary.encode(actions[10:20], rows), whole[10:20])


def test_all_wordings_are_used_about_equally():
    task = text_task(length=20, wordings=4)
    expected = task.vocabulary._actions[1]  # [wordings, stride]
    slots = task.encode(torch.ones(200, 20, dtype=torch.long))[:, 1:].unflatten(1, (20, -1))
    used = (slots[:, :, None] == expected).all(-1)  # [rows, positions, wordings]
    assert (used.sum(-1) == 1).all()
    assert used.float().mean((0, 1)).allclose(torch.tensor(0.25), atol=0.03)
    assert used[:, 0].float().mean(0).allclose(torch.tensor(0.25), atol=0.1)


def test_a_sequence_of_a_split_always_has_the_same_wording():
    task = text_task(wordings=4)
    split = task.split(task.sample(40, seed=0))
    every = split.rows(slice(None)).tokens
    assert torch.equal(split.rows(slice(10, 20)).tokens, every[10:20])
    assert torch.equal(split.rows(torch.tensor([7, 31, 2])).tokens, every[[7, 31, 2]])


def test_the_same_sentences_give_the_same_tokenizer():
    first, other = (sentences(group("S4"), 2) for _ in range(2))
    assert first == other
    assert first.fingerprint == other.fingerprint != sentences(group("S3"), 2).fingerprint


def test_auto_tokenizer_reads_it(tmp_path):
    task = text_task()
    for name, text in task.vocabulary.files().items():
        (tmp_path / name).write_text(text)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    tokens = task.encode(torch.tensor([[1, 4, 2]]))[0]
    encoded = loaded(
        "Swap positions 2 and 3. Rotate the last item to the front. Swap positions 1 and 2."
    )
    special = {loaded.pad_token_id, loaded.bos_token_id}
    assert [i for i in tokens.tolist() if i not in special] == encoded["input_ids"]
    assert loaded.convert_tokens_to_ids("<231>") == task.vocabulary.elements[3]


def byte_level(texts):
    """A tokenizer like GPT-2's: first words have no space."""
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False, initial_alphabet=alphabet)
    own.train_from_iterator(texts, trainer)
    return own


def test_another_tokenizer_is_taken_as_it_is():
    foreign = byte_level(["the quick brown fox swaps positions"])
    old = foreign.get_vocab_size()
    task = text_task(read=foreign)
    tokens = task.encode(torch.tensor([[1, 4]]))[0]
    assert task.vocabulary.text(tokens).endswith("Rotate the last item to the front.")
    assert min(task.vocabulary.elements) >= old
    assert task.vocabulary.size == old + 8
    first = task.vocabulary.stride
    assert words(task, tokens[[first, 2 * first]].tolist()) == [".", "."]


def test_a_tokenizer_that_swallows_periods_is_refused():
    own = Tokenizer(models.WordLevel(unk_token="?"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    own.train_from_iterator(
        ["Swap positions 2 and 3. ."], trainers.WordLevelTrainer(special_tokens=["?"])
    )
    with pytest.raises(StatetraceError, match="merges periods with their neighbours"):
        text_task(read=own)


PANICS = {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}
"""The library ends with a BaseException."""


@pytest.mark.parametrize("content", [{}, PANICS])
def test_a_file_that_is_no_tokenizer(tmp_path, content):
    if content:
        content = json.loads(Tokenizer(models.BPE()).to_str()) | content
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(StatetraceError, match=r"tokenizer\.json' cannot be read"):
        tokenizer.read(tmp_path / "tokenizer.json")


def test_a_tokenizer_without_a_token_for_a_character_is_refused():
    with pytest.raises(StatetraceError, match=r"cannot read '\.' \("):
        sentences(group("S3"), read=Tokenizer(models.Unigram([], None)))


def test_nonsense_is_refused():
    with pytest.raises(StatetraceError, match="paraphrases 5 is not available"):
        sentences(group("S3"), 5)
    with pytest.raises(StatetraceError, match="Z6 cannot be written as text"):
        sentences(group("Z6"))


def test_lengths_and_positions_of_plain_tokens_are_as_ever():
    vocabulary = word_problem("S3", 5).vocabulary
    assert (vocabulary.stride, vocabulary.tokens(5), vocabulary.fitting(6)) == (1, 6, 5)
    assert torch.arange(6)[vocabulary.reads].tolist() == [1, 2, 3, 4, 5]
    assert vocabulary.files() == {}
    assert vocabulary.fingerprint is None
