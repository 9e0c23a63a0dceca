"""`statetrace analyze` on a run of ours and on checkpoints from elsewhere."""

import json

import pyarrow.parquet as pq
import pytest
from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.errors import StatetraceError
from statetrace.lenses.registry import LENSES, chosen, make_spec
from statetrace.runs import Run
from statetrace.training.loop import train
from tests.training.conftest import Recorder, toy

QUICK = [
    "generalization.sequences=60",
    "generalization.bootstrap=20",
    "patching.pairs=12",
    "attention.examples=8",
]


def analyze(*words):
    settings = [word for setting in QUICK for word in ("--set", setting)]
    done = CliRunner().invoke(app, ["analyze", *map(str, words), *settings, "--device", "cpu"])
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("analyze") / "run")
    train(toy(), run, Recorder())
    return run


def lens_files(run):
    return {file.stem for file in (run.path / "lenses").glob("*.parquet")}


def test_all_six_lenses(run):
    done = analyze(run.path)
    assert done.exit_code == 0, done.exception
    assert lens_files(run) == set(LENSES)
    assert len(LENSES) == 6
    for name in LENSES:
        assert pq.read_table(run.path / "lenses" / f"{name}.parquet").num_rows > 0
        about = json.loads((run.path / "lenses" / f"{name}.json").read_text())
        assert about["lens"] == name
    said = {line.split()[0].rstrip(":") for line in done.output.splitlines() if line[:1].strip()}
    assert said >= set(LENSES)  # a sentence, or a note, for each
    used = json.loads((run.path / "lenses" / "patching.json").read_text())["spec"]
    assert used["pairs"] == 12


def test_some_lenses_on_some_checkpoints(run):
    done = analyze(run.path, "--only", "generalization", "--checkpoint", "8,16")
    assert done.exit_code == 0, done.exception
    for step in (8, 16):
        found = {file.name for file in (run.path / "lenses" / f"step-{step}").iterdir()}
        assert {name.split(".")[0] for name in found} == {"generalization"}


def foreign(folder, vocab_size, family="gpt2"):
    """A checkpoint made with plain transformers."""
    if family == "gpt2":
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=vocab_size, n_embd=16, n_layer=2, n_head=2, n_positions=64)
        )
    else:
        model = GPTNeoXForCausalLM(
            GPTNeoXConfig(
                vocab_size=vocab_size,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
            )
        )
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", ["gpt2", "neox"])
def test_a_checkpoint_whose_vocabulary_is_just_the_group(tmp_path, family):
    model = foreign(tmp_path / "theirs", 6, family)
    words = ["--model", model, "--group", "S3", "--length", 6, "--out", tmp_path / "run"]
    done = analyze(*words)
    assert done.exit_code == 0, done.exception
    run = Run(tmp_path / "run")
    assert lens_files(run) == set(LENSES) - {"dynamics"}
    assert "has not learned the task" in done.output
    again = analyze(run.path, "--only", "generalization")  # run.json says how to read it
    assert again.exit_code == 0, again.exception


def test_token_ids_and_start_token(tmp_path):
    model = foreign(tmp_path / "theirs", 50)
    words = ["--model", model, "--group", "S3", "--length", 6, "--only", "generalization"]
    ids = ["--tokens", "40,41,42,43,44,45", "--start-token", 7, "--notation", "receives"]
    done = analyze(*words, *ids, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.exception
    said = Run(tmp_path / "run").info["foreign"]
    assert said["tokens"] == [40, 41, 42, 43, 44, 45]
    assert (said["start_token"], said["notation"]) == (7, "receives")
    other = analyze(*words, "--out", tmp_path / "run")
    assert "already holds another run" in str(other.exception)


@pytest.mark.parametrize(
    ("vocab", "words", "complaint"),
    [
        (4, ["--group", "S3", "--length", "6"], r"knows 4 tokens, but S3 uses token ids up to 5"),
        (7, ["--group", "S3", "--length", "99"], r"length 99 needs 100 positions.*has 64"),
        (7, ["--group", "S3"], r"also needs --length"),
        (7, ["--group", "S3", "--length", "6", "--tokens", "1,2,x"], r"--tokens '1,2,x'"),
        (7, ["--group", "S3", "--length", "6", "--tokens", "1,2"], r"2 token ids .* 6 elements"),
        (7, ["--group", "S3", "--length", "6", "--only", "astrology"], r"unknown lens 'astrology'"),
        (7, ["--group", "S3", "--length", "6", "--set", "pairs=3"], r"--set 'pairs=3'"),
    ],
)
def test_bad_requests_are_quoted(tmp_path, vocab, words, complaint):
    model = foreign(tmp_path / "theirs", vocab)
    done = analyze("--model", model, "--out", tmp_path / "run", *words)
    assert isinstance(done.exception, StatetraceError)
    assert done.exit_code != 0
    import re

    assert re.search(complaint, str(done.exception))
    assert not (tmp_path / "run").exists()


def test_nothing_to_look_at():
    assert "give a run folder" in str(analyze().exception)


def test_a_checkpoint_that_is_not_there(run):
    done = analyze(run.path, "--checkpoint", "9")
    assert "no checkpoint at step 9; there are 8, 16, 24" in str(done.exception)


@pytest.mark.parametrize(
    ("lens", "settings", "complaint"),
    [
        ("patching", {"pears": "3"}, "unknown setting 'pears' .*did you mean 'pairs'"),
        ("patching", {"pairs": "many"}, r"patching.pairs cannot be 'many'; it is a whole number"),
        ("generalization", {"sequences": "0"}, "sequences 0 is too small"),
    ],
)
def test_lens_settings_are_checked(lens, settings, complaint):
    with pytest.raises(StatetraceError, match=complaint):
        make_spec(lens, settings)


def test_lens_settings_are_parsed():
    assert make_spec("dynamics", {"thresholds": "0.5,0.75"}).thresholds == (0.5, 0.75)
    assert make_spec("generalization", {"longest": "none"}).longest is None
    assert make_spec("generalization", {"longest": "40"}).longest == 40
    assert chosen("probing, patching") == ["probing", "patching"]
