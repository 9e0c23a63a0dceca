"""The commands as people type them: help that reads, errors of one sentence, files that open."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import SafetensorError
from typer.testing import CliRunner

from statetrace import cli
from statetrace.cli import app
from statetrace.cli.console import duration
from statetrace.cli.train import TrainingProgress
from statetrace.cli.train import _show_result as show_result
from statetrace.config.recipe import OPTIONS
from statetrace.glossary import find
from statetrace.runs import Run
from statetrace.training.cost import Cost, StageCost
from tests.studies.conftest import study_file
from tests.training.conftest import TOY, flags, toy


def statetrace(*words: object, **env: str) -> subprocess.CompletedProcess:
    """In a process of its own, on a terminal of 80 columns."""
    return subprocess.run(
        [sys.executable, "-m", "statetrace", *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"} | env,
        timeout=600,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = statetrace("train", "--out", folder, *flags(TOY))
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.parametrize(
    "command",
    [["--help"], ["train", "--help"], ["train", "--help-all"], ["analyze", "--help"]],
    ids=" ".join,
)
def test_help_fits_80_columns(command):
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert "Annotated" not in shown.output  # a signature that typer did not understand
    assert max(len(line) for line in shown.output.splitlines()) <= 80
    assert not re.search(r"<(str|int|float|path|list)|\{RUN\}|\[RUN\]", shown.output)


def test_short_help_has_a_dozen_options_and_the_long_one_all():
    def options(flag):
        shown = CliRunner().invoke(app, ["train", flag], env={"COLUMNS": "80"}).output
        return set(re.findall(r"│ (--[a-z0-9-]+)", shown))

    assert {"--group", "--length", "--preset", "--help-all"} <= options("--help")
    assert len(options("--help")) <= 12
    names = [f"--{name.replace('_', '-')}" for name in OPTIONS]
    assert {*names, *options("--help")} <= options("--help-all")


def test_a_folder_is_chosen_where_none_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = ["--layers", "1", "--width", "16", "--heads", "2", "--batch", "4", "--device", "cpu"]
    words = ["train", "--group", "Z2", "--length", "5", "--steps", "2", *tiny]
    for name in ("z2-5", "z2-5-2", "z2-5-3"):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        record = tmp_path / "runs" / name / "run.json"
        assert record.is_file()
        assert ("unfinished" in done.stderr) == (name == "z2-5-3")
        if name == "z2-5-2":  # as if it had been stopped
            record.write_text(
                record.read_text().replace('"ended": "finished"', '"ended": "stopped"')
            )
    assert "--out runs/z2-5-2 --resume continues it" in done.stderr
    assert "--out runs/z2-5 --resume" not in done.stderr


def test_a_term_may_have_several_words():
    done = CliRunner().invoke(app, ["glossary", "head", "score"])
    assert done.stdout.startswith("head score: ")


def test_a_number_that_is_none_is_quoted():
    done = CliRunner().invoke(app, ["train", "--length", "twelve"])
    assert done.exit_code == 2
    assert "'twelve' is not a whole number" in done.stderr


@pytest.mark.parametrize(
    "command", ["--help", "lenses", "lenses patching", "lenses --json", "recipes", "glossary"]
)
def test_help_is_quick(command):
    """It must not wait for torch."""
    code = (
        "import sys; from statetrace.cli import app; app(standalone_mode=False);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, *command.split()]).returncode == 0


def test_train_reports_progress_and_where_the_model_is(run):
    folder, done = run
    lines = done.stderr.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("step")] == ["0", "8", "16", "24"]
    assert lines[0].startswith("about ")  # how long it will take
    assert lines[5] == f"trained model: {folder}/checkpoints/step-24"
    assert lines[6].startswith("not learned: ")
    assert lines[7] == f"next: statetrace train --out {folder} --resume --steps 48"
    assert len(lines) == 9  # and nothing else: no library talks in between
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("last", "result", "steps"),
    [
        (0.99, "learned: 99.0% of the states are correct at length 3, after 24 steps", "verdict"),
        (0.9, "learned: 90.0% .* after 24 steps; 98% cutoff: 3", "verdict"),
        (0.89, "not learned: 89.0% .* at length 3; 98% cutoff: 3", "train --out .* --steps 48"),
    ],
)
def test_learned_is_what_the_glossary_says(tmp_path, capsys, last, result, steps):
    trained = Run(tmp_path)
    trained.write_info({"recipe": {"training": {"steps": 24}}})
    by_length = {"state": [1.0, 0.98, last]}
    trained.append({"kind": "evaluation", "step": 24, "accuracy_by_length": by_length})
    show_result(trained)
    shown = " ".join(capsys.readouterr().err.split())
    assert re.match(rf"{result} next: statetrace {steps}", shown), shown
    assert "at least 90%" in find("learned").definition


def test_a_prolonged_run_is_estimated_again(capsys):
    stage = StageCost(toy(steps=600, most_steps=1200, evaluate_every=5000).stages[0], 7, 1.0)
    progress = TrainingProgress()
    progress.on_estimate(Cost(0, 0, 1, (stage,)))
    progress.on_start(0, 600)
    progress.on_start(600, 800)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "about 10 min at 1 s a step with 1 CPU thread, up to 20 min if it learns late"
    assert second == "about 3 min at 1 s a step with 1 CPU thread, up to 10 min if it learns late"


def test_show_draws_what_the_table_says(run):
    folder, _ = run
    done = statetrace("show", folder)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = records[-1]
    rows = list(csv.DictReader((folder / "accuracy.csv").open()))
    assert [float(row["state"]) for row in rows] == last["accuracy_by_length"]["state"]
    assert f"{last['accuracy']['parity']:.1%}" in done.stdout
    picture = np.asarray(Image.open(folder / "accuracy.png").convert("RGB"))
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):  # the two curves
        assert (np.abs(picture.astype(int) - colour).sum(-1) < 10).sum() > 200


@pytest.mark.new_interpreter
def test_a_recipe_with_overrides(tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        '[task]\ngroup = "Z2"\nlength = 5\n[model]\nlayers = 1\nwidth = 16\nheads = 2\n'
    )
    words = ["--steps", 2, "--batch", 4, "--seed", 7, "--no-start-marker", "--device", "cpu"]
    done = statetrace("train", recipe, *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    used = json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]
    assert (used["task"]["group"], used["task"]["start_marker"]) == ("Z2", False)
    assert (used["training"]["steps"], used["training"]["seed"]) == (2, 7)
    config = json.loads((tmp_path / "run/checkpoints/step-2/config.json").read_text())
    assert config["vocab_size"] == 2


def test_dry_run_prints_recipe_and_cost_and_writes_nothing(tmp_path):
    done = statetrace("train", "--dry-run", "--out", tmp_path / "run", *flags(TOY))
    assert done.returncode == 0, done.stderr
    assert 'group = "S3"' in done.stdout
    assert "58,464 (25,408 in the blocks)" in done.stdout
    assert "ms a step" in done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("seconds", "expected"), [(90, "90 s"), (7200, "2.0 h"), (31_000_000, "359 days")]
)
def test_durations_have_a_fitting_unit(seconds, expected):
    assert duration(seconds) == expected


def test_dry_run_of_a_model_larger_than_this_machine():
    done = statetrace("train", "--model", "pythia-12b", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "11,3" in done.stdout
    assert "not measured" in done.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["train", "--out", "x", "--group", "Q7"], "Q7"),
        (["train", "--out", "x", "--model", "bert"], "bert"),
        (["train", "--out", "x", "--length", "0"], "length 0"),
        (["train", "--out", "x", "--batch", "7", "--accumulate", "2"], "batch 7"),
        (["train", "--out", "x", "--width", "30", "--heads", "4"], "width 30"),
        (["train", "--out", "x", "--data", "nowhere"], "nowhere"),
        (["train", "--out", "x", "--group", "S3", "--length", "3", "--sequences", "999"], "216"),
        (["train", "--out", "x", "--quotients", "colour"], "colour"),
        (["train", "--out", "x", "--actions", "999"], "999"),
        (["train", "--resume"], "--out"),
        (["train", "--preset", "phone"], "phone"),
        (["train", "missing.toml", "--out", "x"], "missing.toml"),
        (["show", "nothing-here"], "nothing-here"),
        (["data", "--out", "x", "--group", "S9"], "S9"),
        (["data", "--out", "x", "--notation", "martian"], "martian"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_bad_input_is_one_sentence_that_quotes_it(tmp_path, monkeypatch, words, complaint):
    """Called in-process: the error the command line prints is the error that was raised."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0
    assert complaint in str(done.exception)
    assert "\n" not in str(done.exception)
    assert list(tmp_path.iterdir()) == []  # nothing is begun that cannot be done


@pytest.mark.parametrize(
    "words",
    [
        ["train", *flags(TOY)],
        ["data", "--sequences", "10"],
        ["compile", "--length", "4"],
        ["study", "FILE"],
        ["analyze", "zoo:s3-associative", "--only", "generalization"],
        ["report", "RUN"],
        ["figures", "RUN"],
        ["signatures", "--group", "S3", "--length", "4"],
    ],
    ids=lambda words: words[0],
)
def test_an_empty_out_is_not_the_current_directory(run, tmp_path, monkeypatch, words):
    named = {"RUN": str(run[0]), "FILE": str(study_file(tmp_path / "files"))}
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = [named.get(word, word) for word in words]
    done = CliRunner().invoke(app, [*words, "--out", ""], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "Invalid value for '--out': '' is not a path" in done.output
    assert list((tmp_path / "here").iterdir()) == []


def test_help_loses_no_word():
    shown = CliRunner().invoke(app, ["analyze", "--help"], env={"COLUMNS": "200"})
    assert "for text, <start>, if there is one" in " ".join(shown.output.replace("│", " ").split())


@pytest.mark.new_interpreter
def test_an_error_is_printed_without_a_traceback(tmp_path):
    done = statetrace("train", "--out", tmp_path / "x", "--group", "Q7")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("run.json", "{}", "has no recipe"),
        ("run.json", "[1]", "not a JSON object"),
        ("run.json", "{", "is damaged"),
        ("metrics.jsonl", '5\n{"x": 1}\nnonsense\n', "has no evaluation"),
    ],
)
def test_damaged_run_folders_are_explained(run, tmp_path, name, text, complaint):
    folder, _ = run
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")  # from which they would be restored
    (tmp_path / "run" / name).write_text(text)
    done = statetrace("show", tmp_path / "run")
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_where_a_folder_should_be(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for words in (["train", *flags(TOY)], ["data", "--sequences", "10"]):
        done = statetrace(*words, "--out", file)
        assert done.returncode == 1
        assert done.stderr.startswith(
            (f"error: cannot use '{file}", f"error: cannot write '{file}")
        )
    assert file.read_text() == "mine"


def test_data_can_be_trained_on(tmp_path):
    folder = tmp_path / "data"
    words = ["--group", "S3", "--length", 5, "--sequences", 300, "--out", folder]
    assert statetrace("data", *words).returncode == 0
    again = statetrace("data", *words)
    assert again.returncode == 1
    assert "already holds sequences" in again.stderr
    settings = TOY | {"length": 5, "sequences": 300, "data": folder, "steps": 2}
    done = statetrace("train", "--out", tmp_path / "run", *flags(settings))
    assert done.returncode == 0, done.stderr
    wrong = statetrace("train", "--out", tmp_path / "other", *flags(settings | {"group": "S4"}))
    assert "holds sequences of S3" in wrong.stderr


def test_damaged_data_are_one_sentence(tmp_path):
    words = ["--group", "S3", "--length", 6, "--sequences", 300, "--out", tmp_path / "data"]
    assert statetrace("data", *words).returncode == 0
    os.truncate(tmp_path / "data" / "states.npy", 200)
    done = statetrace("train", "--out", tmp_path / "x", "--data", tmp_path / "data", *flags(TOY))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/data/states.npy is damaged")
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_leaves_a_checkpoint_to_resume_from(tmp_path):
    import signal
    import time

    folder = tmp_path / "run"
    command = [sys.executable, "-m", "statetrace", "train", "--out", str(folder)]
    command += flags(TOY | {"steps": 100000})
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (folder / "metrics.jsonl").is_file():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130
    assert f"statetrace train --out {folder} --resume" in said
    assert list((folder / "checkpoints").iterdir())


def test_the_estimate_grows_with_the_batch():
    """Large batches are timed on a part of them, so a dry run stays quick."""
    from statetrace.training import cost
    from tests.training.conftest import toy

    small, large = (cost.estimate(toy(batch=batch)) for batch in (32, 3200))
    assert large.tokens == 100 * small.tokens
    assert large.seconds > 5 * small.seconds


@pytest.mark.parametrize("command", ["train", "verdict"])
def test_links_in_a_circle_are_one_sentence(tmp_path, monkeypatch, capsys, command):
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    monkeypatch.setattr(sys, "argv", ["statetrace", command, str(loop)])
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert str(loop) in said.replace("\n", "")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (SafetensorError("No space left on device"), "disk full"),
        (MemoryError(), "not enough memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "--accumulate"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 5 bytes"), "--batch"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_of_the_machine_are_one_sentence(monkeypatch, capsys, error, advice):
    def fail():
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit):
        cli.main()
    assert advice in " ".join(capsys.readouterr().err.split())
