"""Runs and studies copied to results/."""

import json
import shutil
import subprocess
import sys

import pytest

import statetrace as st
from reproduction.export import export_run, export_study
from reproduction.lens_model import LensModel
from reproduction.measures import patching
from reproduction.model_selection import Selection
from reproduction.tables import Tables
from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study
from statetrace.studies.table import evidence, results
from tests.studies.conftest import undisturbed

COMMAND = [sys.executable, "-m", "reproduction.export"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("study"), seeds=2)


def test_a_study_keeps_tables_logs_and_weights(study, tmp_path):
    out = tmp_path / "results" / "copied"
    written = export_study(study.path, out)
    assert set(written) == {path for path in out.rglob("*") if path.is_file()}
    copy = Study.existing(out)
    assert results(copy) == results(study)
    assert evidence(copy) == evidence(study)
    cell = study.plan.cells[0]
    assert copy.run(cell).metrics() == study.run(cell).metrics()
    assert copy.run(cell).info["versions"]["commit"]
    (row, _) = Selection(Tables(tmp_path)).all_rows
    last = study.run(cell).evaluations()[-1]
    assert row["loss"] == pytest.approx(last["loss"], rel=1e-3)
    assert (row["study"], row["size"]) == ("copied", "small")
    path = st.report(out, tmp_path / "report.html")
    assert "copied" in path.read_text()


def test_the_commit_of_a_source_tree_without_git(study, tmp_path, monkeypatch):
    cell = study.plan.cells[0]
    run, out = tmp_path / cell.name, tmp_path / "copy"
    shutil.copytree(study.run(cell).path, run)
    info = json.loads((run / "run.json").read_text())
    for recorded, expected in ((st.__version__, "abc"), ("def", "def")):
        info["versions"]["commit"] = recorded
        (run / "run.json").write_text(json.dumps(info))
        monkeypatch.setattr("reproduction.export.source_commit", lambda r=recorded: r)
        export_run(run, out, commit="abc")
        copied = json.loads((out / "run.json").read_text())
        assert (copied["versions"]["commit"], copied["results_commit"]) == (expected, expected)


def test_weights_in_bfloat16_are_computed_in_float32(study, tmp_path):
    import torch

    cell = study.plan.cells[0]
    export_run(study.run(cell).path, tmp_path / "copy")
    original, copy = st.load(study.run(cell).path), st.load(tmp_path / "copy")
    for name, weight in original.model.state_dict().items():
        kept = copy.model.state_dict()[name]
        assert kept.dtype == torch.float32
        assert torch.equal(kept, weight.to(torch.bfloat16).float())
    files = {file.name for file in (tmp_path / "copy").rglob("*")}
    assert "optimizer.safetensors" not in files
    assert original.cutoff_verdict()["mechanism"] == copy.cutoff_verdict()["mechanism"]


def test_a_run_with_lens_results_names_no_path(tmp_path):
    run = tmp_path / "run"
    model = st.load("zoo:s3-rotary", out=run)
    model.analyze(["patching", "generalization"], at_length=6, pairs=20, sequences=50)
    out = tmp_path / "results" / "zoo" / "s3-new-parity-associative"
    subprocess.run([*COMMAND, run, "--out", out], check=True, timeout=600)
    texts = [file.read_text() for file in out.rglob("*.json")]
    assert not any(str(tmp_path) in text for text in texts)
    copied = LensModel(Tables(tmp_path), "zoo/s3-new-parity-associative")
    assert patching.grid(copied, "prefix")[0].shape[1] == copied.analyzed_length == 6
    assert st.load(out).model.config == model.model.config  # the bundled weights


def test_what_cannot_be_exported(tmp_path):
    done = subprocess.run(
        [*COMMAND, tmp_path / "nothing", "--out", tmp_path / "out"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr
    (tmp_path / "run.json").write_text(json.dumps({"format": 1, "recipe": {}}))
    with pytest.raises(StatetraceError, match="statetrace analyze"):
        export_run(tmp_path, tmp_path / "out")
