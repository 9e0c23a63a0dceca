"""Natural language on the command line: train, analyze by sentence and by token, verdict."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.lenses.loading import load_run
from statetrace.lenses.parts.answers import answers
from statetrace.runs import Run
from tests.training.conftest import flags

RECIPE = Path(__file__).parents[2] / "recipes" / "natural-language.toml"
TOY = {"length": 4, "layers": 2, "width": 32, "heads": 2, "sequences": 1000, "batch": 16}
TOY |= {"steps": 6, "evaluate_sequences": 50, "device": "cpu", "paraphrases": 2}


def statetrace(*words):
    done = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "run"
    statetrace("train", RECIPE, *flags(TOY), "--out", folder)
    return folder


def test_train_writes_a_tokenizer_beside_the_model(run):
    words = json.loads((run / "checkpoints" / "step-6" / "tokenizer.json").read_text())
    assert {"ĠSwap", "Ġpositions", "."} <= words["model"]["vocab"].keys()


@pytest.mark.parametrize(("by", "name"), [("action", "patching"), ("token", "patching-by-token")])
def test_analyze_by_sentence_and_by_token(run, by, name):
    settings = ("--set", "patching.pairs=60", "--set", f"patching.by={by}")
    statetrace("analyze", run, "--only", "patching", *settings, "--device", "cpu")
    positions = set(pq.read_table(run / "lenses" / f"{name}.parquet")["position"].to_pylist())
    stride = json.loads((run / "lenses" / f"{name}.json").read_text())["summary"]
    assert len(positions) == 4 * (1 if by == "action" else stride["tokens_per_action"])


def test_verdict(run):
    assert "unlearned" in statetrace("verdict", run, "--device", "cpu")


def test_a_checkpoint_of_ours_is_read_as_it_was_trained(run, tmp_path):
    """By itself, without its run: padding is visible to it, and its answers are the same."""
    words = ("--group", "S3", "--length", 4, "--notation", "receives", "--form", "text")
    words += ("--paraphrases", 2, "--only", "generalization", "--out", tmp_path, "--device", "cpu")
    statetrace("analyze", "--model", run / "checkpoints" / "step-6", *words)
    theirs, ours = (load_run(Run(folder), None, "cpu") for folder in (tmp_path, run))
    drawn = ours.task.draw(100, seed=0)
    said = [answers(one.model, one.task, drawn).tolist() for one in (theirs, ours)]
    assert said[0] == said[1]
