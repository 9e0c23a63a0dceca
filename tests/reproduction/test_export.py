"""Runs and studies exported to results/."""

import csv
import json
import subprocess
import sys

import pytest

from reproduction.export import export_run
from reproduction.export_study import export_study
from reproduction.lens_model import LensModel
from reproduction.measures import patching, probing
from reproduction.model_selection import Selection
from reproduction.tables import Tables
from statetrace.errors import StatetraceError
from statetrace.studies.table import results
from tests.studies.conftest import undisturbed

GROWING = """
[grid.regime]
scratch = {}
length = { stages = [{ objective = "state", length = 2, steps = 12 }, { objective = "state" }] }
"""
COMMAND = [sys.executable, "-m", "reproduction.export"]


def read(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_study(tmp_path):
    study = undisturbed(tmp_path, seeds=2, grid=GROWING)
    waiting = study.plan.cells[-1]
    (study.path / "outcomes" / f"{waiting.name}.json").unlink()
    out = tmp_path / "results" / "grown"
    written = export_study(study.path, out)
    assert set(written) == {path for path in out.rglob("*") if path.is_file()}
    rows = read(out / "results.csv")
    assert [row["cell"] for row in rows] == [row["cell"] for row in results(study)]
    finished = {row["cell"] for row in rows if row["state"] == "finished"}
    assert {path.stem for path in (out / "runs").iterdir()} == finished
    assert len(finished) == 3
    for cell in study.plan.cells[:3]:
        assert json.loads((out / "runs" / f"{cell.name}.json").read_text()) == study.run(cell).info
    last = study.run(study.plan.cells[0]).metrics("evaluation")[-1]
    loss = next(row for row in read(out / "losses.csv") if row["cell"] == study.plan.cells[0].name)
    assert (float(loss["loss"]), int(loss["step"])) == (float(f"{last['loss']:.4g}"), last["step"])
    assert {row["cell"].split("_")[0] for row in read(out / "stages.csv")} == {"length"}
    assert not (out / "evidence.csv").exists()  # cutoffs alone were requested
    table = Selection(Tables(tmp_path)).all_rows
    assert [(row["study"], row["size"]) for row in table] == [("grown", "small")] * 4
    assert {row["regime"] for row in table} == {"scratch", "length"}


def test_the_command(tmp_path):
    study = undisturbed(tmp_path, seeds=1)
    subprocess.run([*COMMAND, study.path, "--out", tmp_path / "out"], check=True, timeout=600)
    assert (tmp_path / "out" / "results.csv").is_file()
    nothing = [*COMMAND, tmp_path / "nothing", "--out", tmp_path / "out"]
    done = subprocess.run(nothing, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_with_lens_results(tmp_path):
    run = tmp_path / "run"
    lenses = ["--only", "patching,probing,generalization", "--set", "patching.pairs=20",
              "--set", "probing.lengths=4", "--set", "probing.controls=", "--set",
              "probing.train=200", "--set", "probing.test=100", "--set",
              "generalization.sequences=50", "--at-length", "6"]  # fmt: skip
    analyze = [sys.executable, "-m", "statetrace", "analyze", "zoo:s3-rotary", "--out", str(run)]
    subprocess.run([*analyze, *lenses], check=True, timeout=600, capture_output=True)
    out = tmp_path / "results" / "zoo" / "s3-new-parity-associative"
    subprocess.run([*COMMAND, run, "--out", out, "--length", "6"], check=True, timeout=600)
    assert str(tmp_path) not in "".join(file.read_text() for file in out.iterdir())
    model = LensModel(Tables(tmp_path), "zoo/s3-new-parity-associative")
    assert patching.grid(model, "prefix")[0].shape[1] == model.analysed_length == 6
    assert 0 <= probing.last_layer(model, "state").value <= 1
    with pytest.raises(StatetraceError, match="length-5"):
        export_run(run, out, length=5)


def test_a_run_without_lens_results_is_refused(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"format": 1, "recipe": {}}))
    with pytest.raises(StatetraceError, match="statetrace analyze"):
        export_run(tmp_path, tmp_path / "out")
