"""Someone else's checkpoint that reads English, made with transformers and tokenizers alone."""

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
)

from statetrace.config.external import ExternalCheckpoint
from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.lenses.loading import load_external
from statetrace.lenses.parts.answers import answers
from statetrace.runs import Run
from statetrace.tasks.phrases import sentence
from tests.cli.test_analyze import analyze, lens_files

S3 = group("S3", "receives")
LENGTH = 4
TEXTS = {label: [sentence(label, "receives")] for label in S3.labels}
OWN = {
    "123": ["Wait.", "Do nothing at all, please."],
    "132": ["Right pair.", "Cross the two on the right."],
    "213": ["Left pair.", "Cross the two on the left."],
    "231": ["Roll left.", "Everyone moves one to the left."],
    "312": ["Roll right.", "Everyone moves one to the right."],
    "321": ["Outer pair.", "Cross the two outer ones over the middle."],
}


def checkpoint(folder, texts, family="gpt2", states="<{}>", start=None, prefix=False, seed=0):
    """As a stranger might make it: untrained, since only how it is read is tested."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[
            *(states.format(label) for label in S3.labels),
            *([start] if start else []),
        ],
    )
    tokenizer.train_from_iterator(
        [" ".join(phrase for ways in texts.values() for phrase in ways)], trainer
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    size = tokenizer.get_vocab_size()
    torch.manual_seed(seed)
    if family == "gpt2":
        config = GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=128)
        model = GPT2LMHeadModel(config)
    elif family == "llama":
        config = LlamaConfig(
            vocab_size=size,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
        )
        model = LlamaForCausalLM(config)
    else:
        model = MambaForCausalLM(MambaConfig(vocab_size=size, hidden_size=32, num_hidden_layers=2))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data *= 8  # answers that depend on everything before
    model.save_pretrained(folder)
    return folder


def as_transformers_reads_it(folder, texts, labels, states="<{}>", start=""):
    """The states said at every period of a plain text, no padding anywhere."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(start + " ".join(texts), add_special_tokens=False, return_tensors="pt")[
        "input_ids"
    ]
    with torch.no_grad():
        logits = model(ids).logits[0]
    periods = ids[0] == tokenizer.convert_tokens_to_ids(".")
    answer = tokenizer.convert_tokens_to_ids([states.format(label) for label in labels])
    return logits[periods][:, answer].argmax(-1).tolist()


CASES = {
    "plain": {},
    "llama": {"family": "llama"},
    "start": {"start": "<start>"},
    "prefix": {"prefix": True},
    "labels": {"states": "{}"},
}


@pytest.mark.parametrize("about", CASES.values(), ids=CASES)
def test_it_is_asked_at_the_periods_of_the_plain_text(tmp_path, about):
    folder = checkpoint(tmp_path, TEXTS, **about)
    reading = ExternalCheckpoint("S3", LENGTH, "receives", form="text")
    subject = load_external(folder, reading, "cpu")
    drawn = subject.task.sample(40, seed=1)
    predicted = answers(subject.model, subject.task, drawn)
    sentences = [[TEXTS[S3.labels[action]][0] for action in row] for row in drawn.actions]
    states, start = about.get("states", "<{}>"), about.get("start", "")
    expected = [as_transformers_reads_it(folder, t, S3.labels, states, start) for t in sentences]
    assert predicted.tolist() == expected
    assert len({tuple(row) for row in expected}) > 5  # or it would prove nothing


def test_other_sentences_in_several_wordings(tmp_path):
    folder = checkpoint(tmp_path, OWN)
    reading = ExternalCheckpoint("S3", LENGTH, "receives", form="text", phrases=OWN)
    subject = load_external(folder, reading, "cpu")
    drawn = subject.task.sample(40, seed=1)
    predicted = answers(subject.model, subject.task, drawn)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = subject.task.encode(drawn.actions)
    used = set()
    for row, mine, actions in zip(tokens, predicted, drawn.actions, strict=True):
        text = tokenizer.decode(subject.task.vocabulary.unpadded(row))
        sentences = [f"{phrase.strip()}." for phrase in text.split(".")[:-1]]
        used |= set(sentences)
        assert all(
            phrase in OWN[S3.labels[a]] for phrase, a in zip(sentences, actions, strict=True)
        )
        assert mine.tolist() == as_transformers_reads_it(folder, sentences, S3.labels)
    assert len(used) == 12


def test_all_lenses_by_command(tmp_path):
    folder = checkpoint(tmp_path / "theirs", OWN)
    file = tmp_path / "phrases.json"
    file.write_text(json.dumps(OWN))
    options = ["--group", "S3", "--length", LENGTH, "--out", tmp_path / "run", "--form", "text"]
    done = analyze("--model", folder, *options, "--phrases", file)
    assert done.exit_code == 0, done.exception
    run = Run(tmp_path / "run")
    assert lens_files(run) == {
        "generalization",
        "probing",
        "patching",
        "depth",
        "attention",
        "geometry",
    }
    file.unlink()  # run.json says how to read it
    again = analyze(run.path, "--only", "patching", "--set", "patching.by=token")
    assert again.exit_code == 0, again.exception
    assert "patching-by-token" in lens_files(run)
    settings = [word for name in ("steps=2", "draws=1") for word in ("--set", f"subspace.{name}")]
    named = analyze(run.path, "--only", "subspace", *settings, "--set", "subspace.positions=prefix")
    assert named.exit_code == 0, named.exception


REFUSED = {
    "has no single token for each state, such as '123'": ({"states": "s{}"}, {}),
    r"padding cannot be hidden from the model in .* \(mamba": ({"family": "mamba"}, {}),
    "paraphrases 9 is not available": ({}, {"paraphrases": 9}),
    "no sentence for '321'": ({}, {"phrases": {k: v for k, v in OWN.items() if k != "321"}}),
    "'456', which is not an element of S3": ({}, {"phrases": OWN | {"456": ["Hop."]}}),
    "'Wait' for '123' is not a sentence": ({}, {"phrases": OWN | {"123": ["Wait", "Rest."]}}),
    "'123' has 1 sentences and '321' 2": ({}, {"phrases": OWN | {"123": ["Wait."]}}),
    "Z6 cannot be written as text": ({}, {"group": "Z6"}),
}


@pytest.mark.parametrize(("message", "options"), REFUSED.items())
def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path, message, options):
    made, read = options
    folder = checkpoint(tmp_path, OWN, **made)
    how = {"group": "S3", "length": LENGTH, "form": "text"} | read
    with pytest.raises(StatetraceError, match=message):
        load_external(folder, ExternalCheckpoint(**how), "cpu")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--paraphrases", 2], "paraphrases 2 has no effect with form 'tokens'"),
        (["--form", "speech"], "form 'speech' is unknown; use one of tokens, text"),
        (["--form", "text", "--phrases", "gone.json"], "phrases 'gone.json' cannot be read"),
        (
            ["--form", "text", "--phrases", "a.json", "--paraphrases", 2],
            "phrases 'a.json' contradicts paraphrases 2",
        ),
        (["--form", "text"], "has no tokenizer.json"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, complaint):
    folder = checkpoint(tmp_path / "theirs", TEXTS)
    (folder / "tokenizer.json").unlink()
    places = ["--group", "S3", "--length", LENGTH, "--out", tmp_path / "run"]
    done = analyze("--model", folder, *places, *options)
    assert complaint in str(done.exception)
    assert not (tmp_path / "run").exists()
