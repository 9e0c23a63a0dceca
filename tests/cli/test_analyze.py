"""`statetrace analyze` on a run of ours and on checkpoints from elsewhere."""

import json
import re
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
)
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.errors import StatetraceError
from statetrace.lenses.registry import LENSES, ON_REQUEST, chosen, make_spec
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
    only = words[words.index("--only") + 1] if "--only" in words else ",".join(LENSES)
    quick = [setting for setting in QUICK if setting.split(".")[0] in only.split(",")]
    settings = [word for setting in quick for word in ("--set", setting)]
    done = CliRunner().invoke(app, ["analyze", *map(str, words), *settings, "--device", "cpu"])
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("analyze") / "run")
    train(toy(), run, Recorder())
    return run


def lens_files(run):
    return {file.stem for file in (run.path / "lenses").glob("*.parquet")}


def test_a_shorter_length_has_a_folder_of_its_own(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run", ignore=shutil.ignore_patterns("lenses"))
    done = analyze(tmp_path / "run", "--at-length", "4", "--only", "generalization,patching")
    assert done.exit_code == 0, done.exception
    lenses = tmp_path / "run" / "lenses"
    assert {file.stem for file in lenses.glob("*.json")} == {"generalization"}
    assert {file.stem for file in lenses.glob("length-4/*.json")} == {"patching"}
    rows = pq.read_table(lenses / "length-4" / "patching.parquet").to_pylist()
    assert max(row["position"] for row in rows) == 3


def test_a_length_that_is_its_own_changes_nothing(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run", ignore=shutil.ignore_patterns("lenses"))
    own = run.recipe["task"]["length"]
    analyze(tmp_path / "run", "--at-length", own, "--only", "patching")
    assert [file.name for file in (tmp_path / "run" / "lenses").glob("*.json")] == ["patching.json"]


def test_checkpoints_that_solve_nothing_do_not_stop_the_others(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run", ignore=shutil.ignore_patterns("lenses"))
    words = ("--checkpoint", "all", "--at-length", "able", "--only", "generalization,patching")
    done = analyze(tmp_path / "run", *words)
    steps = [step for step, _ in run.checkpoints()]
    assert len(steps) > 1
    for step in steps:
        assert f"step {step}: the model solves no more" in str(done.exception)
        assert (tmp_path / "run" / "lenses" / f"step-{step}" / "generalization.json").is_file()


@pytest.mark.parametrize(
    ("length", "words"),
    [
        ("none", "--at-length 'none' should be a number of actions, or able"),
        ("0", "--at-length '0' should be a number of actions, or able"),
        ("60", "length 60 is longer than the 6 actions"),
        ("able", "the model solves no more than"),
    ],
)
def test_lengths_that_cannot_be_analyzed(run, length, words):
    done = analyze(run.path, "--only", "patching", "--at-length", length)
    assert isinstance(done.exception, StatetraceError)
    assert words in str(done.exception)


def test_all_lenses(run):
    done = analyze(run.path)
    assert done.exit_code == 0, done.exception
    usual = set(LENSES) - ON_REQUEST
    assert lens_files(run) == usual
    for name in usual:
        assert pq.read_table(run.path / "lenses" / f"{name}.parquet").num_rows > 0
        about = json.loads((run.path / "lenses" / f"{name}.json").read_text())
        assert about["lens"] == name
    said = {line.split()[0].rstrip(":") for line in done.output.splitlines() if line[:1].strip()}
    assert said >= usual  # a sentence, or a note, for each
    used = json.loads((run.path / "lenses" / "patching.json").read_text())["spec"]
    assert used["pairs"] == 12


def test_lighter_settings_by_default(run, tmp_path):
    """Results with the paper's settings are not replaced by lighter ones."""
    shutil.copytree(run.path, tmp_path / "run", ignore=shutil.ignore_patterns("lenses"))
    words = (tmp_path / "run", "--only", "depth,attention")

    def trees():
        about = json.loads((tmp_path / "run" / "lenses" / "attention.json").read_text())
        return about["spec"]["tree_examples"]

    analyze(*words)
    assert trees() == 0
    analyze(*words, "--thorough")
    assert trees() is None
    analyze(*words)
    assert trees() is None


def test_json(run):
    done = analyze(run.path, "--only", "generalization,dynamics", "--json")
    (printed,) = json.loads(done.stdout)
    assert set(printed["lenses"]) == {"generalization", "dynamics"}
    saved = json.loads((run.path / "lenses" / "generalization.json").read_text())
    assert printed["lenses"]["generalization"]["summary"] == saved["summary"]


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
    assert lens_files(run) == set(LENSES) - {"dynamics"} - ON_REQUEST
    assert "low accuracy" in done.output
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
    assert "already holds results with" in str(other.exception)


@pytest.mark.parametrize(
    ("vocab", "words", "complaint"),
    [
        (4, ["--group", "S3", "--length", "6"], r"has 4 tokens, but S3 has 6 elements"),
        (7, ["--group", "S3", "--length", "99"], r"length 99 needs 100 positions.*has 64"),
        (7, ["--group", "S3"], r"add the length it was trained with"),
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
    assert re.search(complaint, str(done.exception))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--group", "S5"], "--group S5 is not needed"),
        (["--tokens", "1,2"], "--tokens 1,2 is not needed"),
        (["--start-token", "7"], "--start-token 7 is not needed"),
        (["--device", "tpu"], "device 'tpu' is unknown"),
        (["--device", "cuda:7"], "device 'cuda:7' "),
        (["--device", "mps"], "device 'mps' is not available"),
        (["--only", "probing", "--set", "dynamics.most_phases=3"], "has no effect"),
        (["--set", "generalization.longest=0"], "longest 0 is too small"),
        (["--set", "patching.grids=sideways"], "'sideways' is not the name of a grid"),
        (["--checkpoint", "first"], "--checkpoint 'first'"),
        (["--model", "elsewhere"], "not both"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_cannot_be_meant(run, words, complaint):
    done = CliRunner().invoke(app, ["analyze", str(run.path), *words])
    assert done.exit_code != 0
    assert complaint in str(done.exception)


def test_any_kind_of_patch_can_be_asked_for(run):
    grid = "patching.grids=window3-deletion-head,suffix-substitution-mlp_out"
    done = analyze(run.path, "--only", "patching", "--set", grid)
    assert done.exit_code == 0, done.exception
    kinds = set(pq.read_table(run.path / "lenses" / "patching.parquet")["kind"].to_pylist())
    assert kinds == {"head", "mlp_out"}


def test_results_name_their_checkpoint(run):
    analyze(run.path, "--only", "dynamics", "--checkpoint", "8")
    about = json.loads((run.path / "lenses" / "step-8" / "dynamics.json").read_text())
    assert about["subject"].items() >= {"step": 8, "checkpoint": "step-8"}.items()
    assert about["summary"]["last_step"] == 8  # nothing that came later


def test_a_lens_that_refuses_does_not_stop_the_others(tmp_path):
    model = foreign(tmp_path / "theirs", 6)
    done = analyze("--model", model, "--group", "S3", "--length", 1, "--out", tmp_path / "run")
    assert done.exit_code != 0
    assert "probing:" in str(done.exception)
    assert lens_files(Run(tmp_path / "run")) >= {"generalization", "geometry"}


def test_damaged_checkpoints_are_told(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    (copy / "checkpoints" / "step-24" / "config.json").write_text("{}")
    words = [sys.executable, "-m", "statetrace", "analyze", str(copy), "--only", "dynamics"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "step-24 is damaged (config.json does not match" in done.stderr
    named = analyze(copy, "--only", "dynamics", "--checkpoint", "24")
    assert "is damaged" in str(named.exception)


def test_a_model_that_looks_ahead_is_refused(tmp_path):
    config = BertConfig(
        vocab_size=6, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, is_decoder=False
    )
    BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    words = ["--model", tmp_path / "bert", "--group", "S3", "--length", 4]
    done = analyze(*words, "--out", tmp_path / "run")
    assert "(bert) is not causal" in str(done.exception)


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
