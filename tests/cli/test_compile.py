"""`statetrace compile` as people type it, and `analyze` on what it wrote."""

import json
import os
import shutil
import sys

import pytest
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from statetrace.cli import app, main
from statetrace.errors import StatetraceError
from statetrace.lenses.compiled import check_compiled
from statetrace.models.compiled import CompileSpec
from statetrace.runs import Run
from tests.models.compiled.cases import ALGORITHMS


def statetrace(*words: object):
    return CliRunner().invoke(app, [*map(str, words)], env=os.environ | {"COLUMNS": "80"})


def compiled(folder, *words):
    done = statetrace("compile", "--out", folder, "--length", 6, "--check", 50, *words)
    assert done.exit_code == 0, done.exception
    return done


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_writes_a_folder(name, tmp_path):
    done = compiled(tmp_path / "model", "--algorithm", name)
    assert done.stdout.startswith(f"{name}, S3, length 6: ")
    assert "accuracy 100.00% on 50 sequences (random)" in done.stdout
    assert {file.name for file in (tmp_path / "model").iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "run.json",
    }
    info = Run.existing(tmp_path / "model").info
    spec = CompileSpec(**info["compiled"])
    assert spec == CompileSpec(algorithm=name, length=6)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert check_compiled(model, spec, 100)[0] == 1.0


def test_every_field_is_an_option(tmp_path):
    asked = CompileSpec(
        "S4", "parity-associative", 5, "receives", False, 9, "linear", "average", 3, 1, 1, 2,
        "plain", 1e-5, 12.0, 4, 2, "S3", "composed-quotient", 0.25,
    )  # fmt: skip
    settings = vars(asked) | {"start_marker": None}
    words = [
        word for key, value in settings.items() if value is not None for word in (f"--{key}", value)
    ]
    compiled(tmp_path, *words, "--no-start-marker")
    info = json.loads((tmp_path / "run.json").read_text())
    assert CompileSpec(**info["compiled"]) == asked
    assert info["foreign"]["start_marker"] is False


def test_all_sequences_where_there_are_few(tmp_path):
    done = statetrace("compile", "--out", tmp_path, "--length", 3, "--check", 216)
    assert "on 216 sequences (all)" in done.stdout


def test_no_check(tmp_path):
    done = statetrace("compile", "--out", tmp_path, "--length", 3, "--check", 0)
    assert done.exit_code == 0
    assert "accuracy" not in done.stdout


def test_help_fits_80_columns():
    shown = statetrace("compile", "--help")
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) <= 80


REFUSED = [
    (["--algorithm", "scan"], "'scan'.*sequential, parallel, associative"),
    (["--group", "A5", "--algorithm", "parity-associative"], "A5 has no parity"),
    (["--group", "S5", "--algorithm", "parallel"], "S5 is not solvable.*cannot be counted"),
    (["--algorithm", "parallel", "--parity", "hidden"], "'hidden'.*in parallel parity is"),
    (["--group", "S6"], "S6 has 720 elements, too many"),
    (["--group", "Z60", "--algorithm", "parallel"], "Z60 has 60 elements, too many"),
    (["--group", "Q9"], "'Q9'"),
    (["--group", "D4", "--parity", "hidden"], "cannot be hidden in D4"),
    (["--algorithm", "parallel", "--counter", "selective", "--no-start-marker"], "'selective'"),
    (["--counter", "abacus"], "'abacus'"),
    (["--notation", "cycles"], "'cycles'"),
    (["--length", 0], "length 0"),
    (["--reach", 3], "reach 3"),
    (["--heads", 0], "heads 0"),
    (["--noise", 1.5], r"noise 1\.5"),
    (["--check", -1], "--check -1"),
    (["--algorithm", "lookup"], "S3 at length 16 has 2,821,109,907,456 rows"),
    (["--second", "parallel", "--share", 1], r"share 1\.0"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_refused_with_one_sentence_and_nothing_written(words, sentence, tmp_path):
    done = statetrace("compile", "--out", tmp_path / "new", *words)
    assert done.exit_code == 1
    assert isinstance(done.exception, StatetraceError)
    said = str(done.exception)
    assert "\n" not in said
    with pytest.raises(StatetraceError, match=sentence):
        raise done.exception
    assert list(tmp_path.iterdir()) == []


def test_what_a_person_sees_of_it(tmp_path, monkeypatch, capsys):
    words = ["compile", "--group", "S5", "--algorithm", "parallel", "--out", str(tmp_path / "new")]
    monkeypatch.setattr(sys, "argv", ["statetrace", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert " ".join(shown.err.split()).startswith("error: S5 is not solvable: its derived series")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    done = statetrace("compile", "--out", tmp_path, "--length", 4)
    assert done.exit_code == 1
    assert str(tmp_path) in str(done.exception)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    done = statetrace("compile", "--out", tmp_path / "mine.txt", "--length", 4)
    assert done.exit_code == 1
    assert "mine.txt' already exists" in str(done.exception)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_an_empty_folder_will_do(tmp_path):
    compiled(tmp_path)
    assert (tmp_path / "run.json").is_file()


@pytest.mark.parametrize(
    ("words", "cutoff"),
    [
        (["--algorithm", "sequential"], 7),
        (["--algorithm", "associative", "--no-start-marker", "--notation", "receives"], 9),
        (["--algorithm", "parity-associative", "--group", "S4"], 9),
        (["--algorithm", "strided", "--stride", 2, "--second", "parallel", "--share", 0], 7),
    ],
)
def test_analyze_reads_it_wherever_it_lies(words, cutoff, tmp_path):
    """A scan of 6 is one of 8."""
    compiled(tmp_path / "here", *words)
    shutil.move(tmp_path / "here", tmp_path / "there")
    settings = ("--set", "generalization.sequences=150", "--set", "generalization.bootstrap=5")
    done = statetrace("analyze", tmp_path / "there", "--only", "generalization", *settings)
    assert done.exit_code == 0, done.exception
    found = json.loads((tmp_path / "there" / "lenses" / "generalization.json").read_text())
    assert found["summary"]["accuracy"]["state"] == 1.0
    assert found["summary"]["cutoff"]["state"]["first_below"] == cutoff
    assert found["summary"]["training_length"] == 6
