"""`statetrace study` from the outside."""

import json
import subprocess

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study
from statetrace.studies.slurm import SlurmSpec, script
from tests.studies.conftest import study_file

GRID = """
[grid.regime.plain]

[grid.regime.parity]
stages = [{ objective = "parity", steps = 6 }, { objective = "state" }]
"""


def statetrace(*words: object):
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture
def prepared(tmp_path):
    file = study_file(tmp_path, seeds=3, grid=GRID)
    done = statetrace("study", file, "--out", tmp_path / "a study", "--prepare")
    assert done.exit_code == 0, done.output
    assert "6 cells planned" in done.stderr
    return tmp_path / "a study"


def test_a_worker_status_and_tables(prepared):
    waiting = statetrace("study", "status", prepared)
    assert "0 of 6 cells have ended; 6 waiting" in waiting.stdout
    done = statetrace("study", "work", prepared, "--cell", "parity_seed-1")
    assert done.exit_code == 0, done.output
    assert "parity_seed-1: finished" in done.stderr
    status = statetrace("study", "status", prepared)
    assert "1 of 6 cells have ended: 1 finished; 5 waiting" in status.stdout
    (line,) = [line for line in status.stdout.splitlines() if line.startswith("parity_seed-1")]
    assert line.split()[:3] == ["parity_seed-1", "finished", "30"]
    assert statetrace("study", "table", prepared).exit_code == 0
    rows = {row["cell"]: row for row in pq.read_table(prepared / "results.parquet").to_pylist()}
    assert [rows[f"plain_seed-{n}"]["state"] for n in range(3)] == ["waiting"] * 3
    assert (rows["parity_seed-1"]["regime"], rows["parity_seed-1"]["seed"]) == ("parity", 1)
    (share,) = pq.read_table(prepared / "proportions.parquet").to_pylist()
    assert (share["regime"], share["mechanism"], share["share"]) == ("parity", "unlearned", 1.0)


def test_slurm_script_is_bash_and_names_every_cell(prepared):
    words = ["--jobs", 4, "--gpus", 1, "--directive=--partition=gpu"]
    done = statetrace("study", "slurm", prepared, *words)
    assert done.exit_code == 0, done.output
    file = prepared / "slurm.sh"
    assert subprocess.run(["bash", "-n", file]).returncode == 0
    text = file.read_text()
    assert "#SBATCH --array=0-5%4\n" in text
    assert "#SBATCH --partition=gpu\n" in text
    assert "#SBATCH --signal=B:TERM@120\n" in text  # without B: the script itself hears nothing
    names = [cell["name"] for cell in json.loads((prepared / "study.json").read_text())["cells"]]
    assert all(name in text for name in names)
    # each task would begin with its own cell
    echo = SlurmSpec(program="echo")
    for number, name in enumerate(names):
        said = subprocess.run(
            ["bash", "-c", script(Study.existing(prepared), echo)],
            env={"SLURM_ARRAY_TASK_ID": str(number), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert said.stdout.strip() == f"study work {prepared} --cell {name} --then-others"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "-1"], "gpus -1 is too small; use 0 or more"),
        (["--jobs", "0"], "jobs 0 is too small; use 1 or more"),
        (["--time", "abc"], "time 'abc' is not"),
        (["--time", "1:2:3:4"], "time '1:2:3:4' is not"),
        (["--memory", "-3"], "memory '-3' is not"),
        (["--memory", "16 apples"], "memory '16 apples' is not"),
        (["--directive=partition=gpu"], "directive 'partition=gpu' is not an option"),
        (["--directive=--partition=gpu\nrm -r ."], "is not an option"),
    ],
    ids=" ".join,
)
def test_slurm_refuses_what_sbatch_would(prepared, words, said):
    done = statetrace("study", "slurm", prepared, *words)
    assert said in str(done.exception)
    assert not (prepared / "slurm.sh").exists()


@pytest.mark.parametrize("time", ["90", "90:30", "1:00:00", "2-12", "2-12:30:00", "UNLIMITED"])
@pytest.mark.parametrize("memory", ["0", "4000", "500m", "1T"])
def test_slurm_takes_what_sbatch_does(prepared, time, memory):
    done = statetrace("study", "slurm", prepared, "--time", time, "--memory", memory)
    assert done.exit_code == 0, done.output
    text = (prepared / "slurm.sh").read_text()
    assert f"#SBATCH --time={time}\n#SBATCH --mem={memory}\n" in text


def test_the_largest_arrays_take_several_cells_a_task(tmp_path):
    file = study_file(tmp_path, seeds=2500, rules='work = "nothing"')
    assert statetrace("study", file, "--out", tmp_path / "s", "--prepare").exit_code == 0
    text = script(Study.existing(tmp_path / "s"), SlurmSpec())
    assert "--array=0-833\n" in text
    assert '"${cells[@]:first:3}"' in text


def test_a_whole_study_and_a_failing_cell(tmp_path):
    grid = "[grid.regime.plain]\n[grid.regime.broken]\nlearning_rate = 1e38\nclip = 0.0"
    file = study_file(tmp_path, seeds=1, grid=grid, rules="retries = 1")
    done = statetrace("study", file, "--out", tmp_path / "study", "--jobs", 1)
    assert done.exit_code == 1
    assert "1 of 2 cells failed" in str(done.exception)
    assert "broken_seed-0: failed (the loss became" in done.stderr
    assert "plain_seed-0: finished" in done.stderr
    assert (tmp_path / "study" / "results.csv").exists()
    status = statetrace("study", "status", tmp_path / "study").stdout
    assert "broken_seed-0: the loss became" in status
    assert "2 of 2 cells have ended: 1 finished, 1 failed" in status
    report = statetrace("report", tmp_path / "study")
    following = report.stderr.split("next: statetrace ")[1].split()
    assert following == ["explore", str(tmp_path / "study" / "cells" / "plain_seed-0")]


def test_refused_in_a_sentence(tmp_path):
    done = statetrace("study", "status", tmp_path)
    assert "is not a study folder" in str(done.exception)
    done = statetrace("study", tmp_path / "none.toml", "--out", tmp_path / "s")
    assert "there is no study" in str(done.exception)


@pytest.mark.parametrize(
    ("word", "hint"), [("statsu", r"did you mean 'status'\?"), ("x", "use one of run, status, ")]
)
def test_a_misspelt_command_is_quoted(tmp_path, word, hint):
    with pytest.raises(StatetraceError, match=f"'{word}' is neither a study file nor .*{hint}"):
        raise statetrace("study", word, tmp_path).exception
