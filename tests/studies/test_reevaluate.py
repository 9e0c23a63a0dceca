"""What verdicts of cells rest on, and looking at trained cells again."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.lenses.compiled import task_of
from statetrace.mechanisms.collect_evidence import collect_evidence
from statetrace.mechanisms.mastery import COLLECTED
from statetrace.models.compiled import compile_model
from statetrace.studies.evaluate import evidence_of, reevaluate
from statetrace.studies.folder import Study
from statetrace.studies.table import evidence
from tests.studies.conftest import prepared, undisturbed


@pytest.mark.parametrize("algorithm", ["associative", "parity-associative"])
def test_evidence_of_a_compiled_model_is_nearest_to_what_it_runs(algorithm):
    spec = CompileSpec(algorithm=algorithm, length=8)
    task = task_of(spec)
    results = collect_evidence(compile_model(spec), task, lenses=COLLECTED)
    found = evidence_of(results, task.group)
    (other,) = {"associative", "parity-associative"} - {algorithm}
    for lens in ("patching", "depth", "probing"):
        assert found[lens][algorithm] == min(found[lens].values()), lens
        assert found[lens][algorithm] < found[lens][other], lens
    head = results["attention"].summary["top_heads"][0]["score"]
    assert found["attention"]["score"] == pytest.approx(head, abs=1e-4)
    assert "dynamics" not in found  # nobody trained it
    assert evidence_of({"generalization": results["generalization"]}, task.group) == {}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("judged"), seeds=2, verdict="full")


def copied(study, folder):
    shutil.copytree(study.path, folder / "study")
    return Study.existing(folder / "study")


def test_a_second_look_says_the_same_and_leaves_the_rest(judged, tmp_path):
    study = copied(judged, tmp_path)
    cell = study.plan.cells[0]
    before = study.outcome(cell)
    study.replace_final(cell, before["final"] | {"mechanism": "parallel", "confidence": 0.5})
    assert reevaluate(study, cell) == f"{cell.name}: unlearned, before parallel"
    after = study.outcome(cell)
    assert "looked" in after
    assert {key: after[key] for key in before} == before
    assert reevaluate(study, cell) == f"{cell.name}: unlearned"


def test_cells_that_cannot_be_looked_at_are_left_alone(judged, tmp_path):
    study = copied(judged, tmp_path)
    first, second = study.plan.cells
    shutil.rmtree(study.run(first).checkpoint(30))
    before = study.outcome(first)
    assert "weights of step 30 are gone" in reevaluate(study, first)
    assert study.outcome(first) == before
    (study.path / "outcomes" / f"{second.name}.json").unlink()
    assert "not finished" in reevaluate(study, second)
    assert study.outcome(second) is None


def test_the_table_of_evidence(judged, tmp_path):
    study = copied(judged, tmp_path)
    second = study.plan.cells[1]
    assert evidence(study) == []  # these have not learned the task
    numbers = {"patching": {"associative": 0.25, "parallel": 0.5}, "dynamics": {"parity lead": 0.1}}
    study.replace_final(second, study.outcome(second)["final"] | {"evidence": numbers})
    rows = evidence(study)
    assert [(row["cell"], row["lens"], row["of"], row["value"]) for row in rows] == [
        (second.name, "patching", "associative", 0.25),
        (second.name, "patching", "parallel", 0.5),
        (second.name, "dynamics", "parity lead", 0.1),
    ]
    done = CliRunner().invoke(app, ["study", "table", str(study.path)])
    assert done.exit_code == 0, done.output
    written = (study.path / "evidence.csv").read_text().splitlines()
    assert len(written) == 4
    assert written[0] == '"cell","step","lens","of","value"'


def test_the_command_looks_at_all_cells_or_one(judged, tmp_path):
    study = copied(judged, tmp_path)
    name = study.plan.cells[1].name
    done = CliRunner().invoke(app, ["study", "look", str(study.path), "--cell", name])
    assert done.exit_code == 0, done.output
    looked = [
        "looked" in json.loads(path.read_text()) for path in sorted(study.path.glob("outcomes/*"))
    ]
    assert looked == [False, True]
    with pytest.raises(StatetraceError, match="has no cell 'seed-9'"):
        CliRunner().invoke(
            app, ["study", "look", str(study.path), "--cell", "seed-9"], catch_exceptions=False
        )


def test_a_study_that_was_never_begun(tmp_path):
    study = prepared(tmp_path)
    assert "not finished" in reevaluate(study, study.plan.cells[0])
