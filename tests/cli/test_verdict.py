"""`statetrace verdict`: from folders to a sentence, JSON, and clear refusals."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import statetrace as st
from statetrace.cli import app
from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.files import read_json, write_json
from statetrace.lenses.compiled import save_compiled
from statetrace.models.checkpoint import quiet
from statetrace.models.compiled import compile_model
from statetrace.reports.page import report
from statetrace.reports.run_results import newest
from tests.training.conftest import toy

READ = "generalization,probing,patching,depth,attention"


def said(*words):
    return CliRunner().invoke(app, ["verdict", *map(str, words)])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    spec = CompileSpec(algorithm="parity-associative", length=6)
    folder = tmp_path_factory.mktemp("compiled") / "paa"
    save_compiled(compile_model(spec), spec, folder)
    return folder


def test_mechanism_confidence_and_a_line_per_lens(compiled):
    done = said(compiled)
    assert done.exit_code == 0, done.exception
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("parity-associative, confidence ")
    for lens in ("depth", "generalization"):
        assert any(line.startswith(lens) for line in done.output.splitlines()), lens


def test_json_and_the_file(compiled):
    done = said(compiled, "--json")
    found = json.loads(done.stdout)
    assert found["mechanism"] == "parity-associative"
    assert 0.5 < found["confidence"] <= 1
    assert set(found["evidence"]) == {"depth", "generalization"}
    assert [link["link"] for link in found["links"]] == ["parity", "state"]
    assert read_json(compiled / "verdict.json") == found


def test_results_that_are_there_are_used(compiled):
    """After `analyze`, a verdict gives the same answer without looking at the model again."""
    runner = CliRunner()
    done = runner.invoke(app, ["analyze", str(compiled), "--only", READ])
    assert done.exit_code == 0, done.exception
    weights = compiled / "model.safetensors"
    hidden = weights.rename(compiled / "hidden")
    try:
        done = said(compiled)
    finally:
        hidden.rename(weights)
    assert done.exit_code == 0, done.exception
    assert "parity-associative, confidence" in done.output


@pytest.mark.parametrize("command", ["verdict", "report", "analyze"])
def test_a_plain_checkpoint_in_one_command(looked_at, tmp_path, monkeypatch, command):
    """Results go to runs/NAME, where later commands find them without being told the task again."""
    monkeypatch.chdir(tmp_path)
    folder = str(looked_at / "hf")
    quick = ["--only", "depth"] if command == "analyze" else []
    missing = CliRunner().invoke(app, [command, folder, "--group", "S3"])
    full = f"`statetrace {command} {folder} --group S3 --length 14`"
    assert f"does not record its task; add the length it was trained with, as in {full}" in str(
        missing.exception
    )
    assert list(tmp_path.iterdir()) == []
    task = ["--group", "S3", "--length", "6"]
    done = CliRunner().invoke(app, [command, folder, *task, *quick])
    assert done.exit_code == 0, done.exception
    assert "results: runs/hf\n" in done.stderr
    assert "\nnext: statetrace " in done.stderr
    lenses = {file.stem for file in Path("runs/hf/lenses").glob("*.json")}
    assert lenses == {"depth"} | (set() if quick else {"generalization"})
    for known in ([], ["--group", "S3"]):
        again = CliRunner().invoke(app, [command, folder, *known, *quick])
        assert again.exit_code == 0, again.exception
    changed = CliRunner().invoke(app, [command, folder, "--group", "Z6"])
    assert "does not record its task; add the length" in str(changed.exception)
    other = CliRunner().invoke(app, [command, folder, "--group", "S3", "--length", "5", *quick])
    assert other.exit_code == 0, other.exception
    assert "results: runs/hf-2\n" in other.stderr


def test_an_interrupted_verdict_continues(tmp_path):
    """A real Ctrl-C, after the first lens: what it computed is not computed again."""
    put(CompileSpec(algorithm="associative", length=6), tmp_path / "hf")
    words = [sys.executable, "-m", "statetrace", "verdict", "hf", "--group", "S3", "--length", "6"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    first = tmp_path / "runs/hf/lenses/generalization.json"
    while not first.is_file():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command continues" in shown.splitlines()[-1]
    assert not (tmp_path / "runs/hf/verdict.json").exists()
    written = first.stat().st_mtime_ns
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert first.stat().st_mtime_ns == written
    assert "associative, confidence" in done.stdout


def test_fast(compiled):
    done = said(compiled, "--fast", "--json")
    assert json.loads(done.stdout)["mechanism"] == "parity-associative"


def test_bad_words(tmp_path, compiled):
    assert f"'{tmp_path}' is neither a run folder" in str(said(tmp_path).exception)
    assert str(said(compiled.parent).exception).endswith(f"; give a run in it: {compiled}")
    for task in ([], ["--group", "S3", "--length", "6"]):
        file = said(compiled / "model.safetensors", *task)
        assert str(file.exception).endswith(f"is a file; give its folder, '{compiled}'")
    assert "the zoo has no model 'nobody'" in str(said("zoo:nobody").exception)


def analyzed(*words):
    done = CliRunner().invoke(app, ["analyze", *map(str, words), "--device", "cpu"])
    assert done.exit_code == 0, done.exception


def put(spec, folder):
    """Weights as somebody else would leave them: no run.json."""
    folder.mkdir(exist_ok=True)
    with quiet():
        compile_model(spec).save_pretrained(folder)


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory):
    """An associative model from elsewhere, looked at by the lenses of a verdict."""
    folder = tmp_path_factory.mktemp("foreign")
    put(CompileSpec(algorithm="associative", length=6), folder / "hf")
    foreign = ["--model", folder / "hf", "--group", "S3", "--length", 6]
    analyzed(*foreign, "--out", folder / "run", "--only", READ)
    return folder


@pytest.fixture
def theirs(looked_at, tmp_path):
    """A copy of it."""
    shutil.copytree(looked_at, tmp_path, dirs_exist_ok=True)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    info["foreign"]["folder"] = str(tmp_path / "hf")
    write_json(tmp_path / "run" / "run.json", info)
    return tmp_path


def test_results_of_other_weights_are_recomputed(theirs):
    run = theirs / "run"
    before = json.loads(said(run, "--json").stdout)
    assert before["mechanism"] == "associative"
    put(CompileSpec(algorithm="parallel", length=6), theirs / "hf")
    analyzed(run, "--only", "depth")
    done = said(run, "--json")
    assert json.loads(done.stdout)["mechanism"] == "parallel"
    others = "generalization, probing, patching, attention"
    assert f"recomputed where needed: {others} (computed from other weights" in done.stderr
    again = said(run, "--json")
    assert again.stdout == done.stdout
    assert "generalization" not in again.stderr  # what was computed is kept, checks are not needed


def test_report_and_figures_leave_results_of_other_weights_out(theirs):
    run = theirs / "run"
    said(run)
    assert newest(run).outdated == []
    assert newest(run).verdict is not None
    put(CompileSpec(algorithm="parallel", length=6), theirs / "hf")
    analyzed(run, "--only", "depth")
    look = newest(run)
    assert look.outdated == ["generalization", "probing", "patching", "attention"]
    assert look.lens("depth") is not None
    assert look.lens("patching") is None
    with pytest.raises(
        StatetraceError, match=r"patching results in .* other weights .*--only patching`"
    ):
        look.need("patching")
    assert look.verdict is None
    page = report([run])
    assert (
        "generalization, probing, patching, attention: ignored, because the results are of other "
        "weights" in page
    )
    assert "verdict.json&#39; is of other weights" in page
    done = CliRunner().invoke(app, ["figures", str(run), "--only", "patching"])
    assert str(done.exception).count("other weights") == 1


def test_another_model_at_the_same_step_is_analyzed_again(tmp_path):
    """A run's results are matched by its weights, not by the step alone."""
    mine, other = (st.train(toy(seed=seed, steps=8), out=tmp_path / f"{seed}") for seed in (0, 1))
    before = mine.analyze("generalization")["generalization"]
    shutil.copytree(tmp_path / "0" / "lenses", tmp_path / "1" / "lenses")
    assert newest(tmp_path / "0").outdated == []
    assert newest(tmp_path / "1").outdated == ["generalization"]
    after = other.analyze("generalization")["generalization"]
    assert before.subject["step"] == after.subject["step"]
    assert before.subject["weights"] != after.subject["weights"]
    assert newest(tmp_path / "1").outdated == []


def test_the_dynamics_of_a_verdict_are_kept(tmp_path):
    """Else the report would list them as missing, and a second verdict would do without them."""
    st.train(toy(steps=8), out=tmp_path / "run").verdict()
    assert newest(tmp_path / "run").lens("dynamics") is not None


def test_results_without_a_fingerprint_still_count(theirs):
    for file in (theirs / "run" / "lenses").glob("*.json"):
        about = json.loads(file.read_text())
        del about["subject"]["weights"]
        write_json(file, about)
    put(CompileSpec(algorithm="parallel", length=6), theirs / "hf")
    assert json.loads(said(theirs / "run", "--json").stdout)["mechanism"] == "associative"


@pytest.mark.parametrize(
    ("lens", "settings", "words"),
    [
        ("depth", ["lengths=3"], "depth (lengths 3 instead of 2 3 4 6)"),
        ("patching", ["length=4", "pairs=30"], "patching (length 4 instead of 6)"),
        ("attention", ["first=100"], "attention (first 100 instead of 5)"),
        (
            "patching",
            ["grids=prefix-substitution-head", "pairs=30"],
            "patching (grids prefix-substitution-head without prefix-substitution-resid)",
        ),
    ],
)
def test_exploratory_results_are_not_taken_for_the_standard_ones(theirs, lens, settings, words):
    run = theirs / "run"
    chosen = [word for one in settings for word in ("--set", f"{lens}.{one}")]
    analyzed(run, "--only", lens, *chosen)
    mine = (run / "lenses" / f"{lens}.json").read_text()
    done = said(run, "--json")
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    assert found["mechanism"] == "associative"
    left = set(READ.split(",")) - ({lens} - {"depth"})  # only depth is computed again
    assert set(found["evidence"]) == left
    assert f"ignored; recomputed where needed: {words}\n" in done.stderr
    assert (run / "lenses" / f"{lens}.json").read_text() == mine


def test_other_seeds_and_fewer_pairs_are_used(theirs):
    analyzed(theirs / "run", "--only", "patching", "--set", "patching.pairs=50")
    analyzed(theirs / "run", "--only", "depth", "--set", "depth.seed=7")
    (theirs / "hf" / "model.safetensors").unlink()
    done = said(theirs / "run")
    assert done.exit_code == 0, done.exception
    assert [line.split(":")[0] for line in done.stderr.splitlines()][:1] == ["next"]


def test_what_lenses_saw_at_the_length_it_masters_is_used(theirs):
    """It was made for 6 actions and is asked about 12: they must all look at the same ones."""
    foreign = ["--model", theirs / "hf", "--group", "S3", "--length", 12, "--out", theirs / "long"]
    analyzed(*foreign, "--only", READ, "--at-length", "able")
    (shorter,) = (theirs / "long" / "lenses").glob("length-*")
    length = int(shorter.name.removeprefix("length-"))
    assert 6 <= length < 12
    afresh = shutil.copytree(theirs / "long", theirs / "afresh")
    shutil.rmtree(afresh / "lenses" / shorter.name)
    found = json.loads(said(afresh, "--json").stdout)
    hidden = (theirs / "hf" / "model.safetensors").rename(theirs / "hidden")
    used = json.loads(said(theirs / "long", "--json").stdout)  # the model is not needed
    hidden.rename(theirs / "hf" / "model.safetensors")
    assert used["says"] == found["says"]
    assert f"at lengths 2 to {length};" in used["says"]
    analyzed(theirs / "long", "--only", "depth", "--at-length", 6)
    analyzed(theirs / "long", "--only", "depth,patching")
    assert json.loads(said(theirs / "long", "--json").stdout) == used


def test_a_damaged_result_is_named(theirs):
    run = theirs / "run"
    (run / "lenses" / "geometry.json").write_text("{}")  # not read for a verdict
    assert said(run).exit_code == 0
    (run / "lenses" / "depth.parquet").unlink()
    sentence = f"'{run}/lenses/depth.parquet' is missing; `statetrace analyze {run} --only depth`"
    for options, named in ((["--fast"], False), ([], True), ([], False)):  # then it is restored
        done = said(run, *options)
        assert done.exit_code == 0
        assert (sentence in done.output) is named
