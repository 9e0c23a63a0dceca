"""`statetrace report` and `statetrace figures` as people type them."""

import json
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.errors import StatetraceError
from statetrace.lenses.result import LensResult
from tests.studies.conftest import prepared

runner = CliRunner()


def typed(*arguments):
    done = runner.invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, StatetraceError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_report_says_where_it_is(run, other, tmp_path):
    page = tmp_path / "new folder" / "both.html"
    assert f"report: {page}" in typed("report", run, other, "--out", page)
    assert page.stat().st_size > 1_000_000


def test_report_goes_into_the_run_folder(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    typed("report", copy)
    assert (copy / "report.html").is_file()


def test_a_model_of_the_zoo_gets_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = ("--only", "generalization", "--set", "generalization.sequences=20")
    typed("analyze", "zoo:s3-associative", *quick)  # without results the verdict is computed
    assert "report: zoo-s3-associative/report.html" in typed("report", "zoo:s3-associative")
    with pytest.raises(StatetraceError, match="'nothing'"):
        typed("report", "zoo:nothing")


def test_figures_go_where_they_should(run, tmp_path):
    output = typed("figures", run, "--out", tmp_path / "pdf", "--only", "generalization,depth")
    assert "4 figures" in output
    assert (
        sorted(path.suffix for path in (tmp_path / "pdf").iterdir()) == [".csv"] * 4 + [".pdf"] * 4
    )


def test_results_of_another_version_are_left_out(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    replace(LensResult.load(copy / "lenses", "geometry"), arrays={}).save(copy / "lenses")
    output = typed("figures", copy, "--only", "geometry,depth")
    assert "geometry: the results are not as expected" in output
    assert [*(copy / "figures").glob("depth*.pdf")]


def test_what_is_missing_is_named_once_with_a_command_that_computes_it(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    lenses = copy / "lenses"
    (lenses / "length-4").mkdir()
    for file in lenses.glob("depth.*"):
        file.rename(lenses / "length-4" / file.name)
    (lenses / "geometry.json").unlink()
    output = typed("figures", copy, "--only", "depth,geometry,geometry-measures")
    command = f"statetrace analyze {copy} --only geometry --at-length 4"
    assert output.count(command) == 1
    info = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({"format": 1, "recipe": {"task": info["foreign"]}}))
    output = typed("figures", copy, "--only", "depth,geometry")
    assert "no weights" in output
    assert "analyze" not in output


def test_what_cannot_be_done_is_one_sentence(run, tmp_path):
    with pytest.raises(StatetraceError, match="neither a run folder"):
        typed("report", tmp_path)
    with pytest.raises(StatetraceError, match="is a folder"):
        typed("report", run, "--out", tmp_path)
    with pytest.raises(StatetraceError, match="'tiff'"):
        typed("figures", run, "--out", tmp_path / "x", "--format", "tiff")
    with pytest.raises(StatetraceError, match=r"stages: .* has no stages"):
        typed("figures", run, "--out", tmp_path / "x", "--only", "stages")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(run / "run.json", bare)
    with pytest.raises(StatetraceError, match="nothing to draw yet"):
        typed("figures", bare)
    study = prepared(tmp_path).path
    message = r"nothing to draw yet; `statetrace study FILE --out .*study` trains"
    with pytest.raises(StatetraceError, match=message):
        typed("figures", study)
