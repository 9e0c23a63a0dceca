"""A study as it comes from training, kept for results/."""

import csv
import json
import subprocess
import sys

from reproduction.export_study import keep_study
from statetrace.studies.table import results
from tests.studies.conftest import undisturbed

GROWING = """
[grid.regime]
scratch = {}
length = { stages = [{ objective = "state", length = 2, steps = 12 }, { objective = "state" }] }
"""


def read(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_what_is_kept_of_a_study(tmp_path):
    study = undisturbed(tmp_path, seeds=2, grid=GROWING)
    waiting = study.plan.cells[-1]
    (study.path / "outcomes" / f"{waiting.name}.json").unlink()
    out = tmp_path / "kept"
    written = keep_study(study.path, out)
    assert set(written) == {path for path in out.rglob("*") if path.is_file()}
    rows = read(out / "results.csv")
    assert [row["cell"] for row in rows] == [row["cell"] for row in results(study)]
    ended = {row["cell"] for row in rows if row["state"] == "finished"}
    assert {path.stem for path in (out / "runs").iterdir()} == ended
    assert len(ended) == 3
    for cell in study.plan.cells[:3]:
        assert json.loads((out / "runs" / f"{cell.name}.json").read_text()) == study.run(cell).info
    last = study.run(study.plan.cells[0]).metrics("evaluation")[-1]
    loss = next(row for row in read(out / "losses.csv") if row["cell"] == study.plan.cells[0].name)
    assert (float(loss["loss"]), int(loss["step"])) == (float(f"{last['loss']:.4g}"), last["step"])
    assert {row["cell"].split("_")[0] for row in read(out / "stages.csv")} == {"length"}
    assert not (out / "evidence.csv").exists()  # cutoffs alone were asked for


def test_the_command_takes_runs_and_studies(tmp_path):
    study = undisturbed(tmp_path, seeds=1)
    command = [sys.executable, "-m", "reproduction.export"]
    subprocess.run([*command, study.path, "--out", tmp_path / "kept"], check=True, timeout=120)
    assert (tmp_path / "kept" / "results.csv").is_file()
    nothing = [*command, tmp_path / "nothing", "--out", tmp_path / "kept"]
    done = subprocess.run(nothing, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr
