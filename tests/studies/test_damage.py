"""Damaged files of a study: reported, left out of the tables, restored when it is run again."""

import json
import os
import shutil

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.files import WriteError, write_json
from statetrace.runs import Run
from statetrace.studies import leases
from statetrace.studies.folder import Study, prepare_study
from statetrace.studies.grid import read_study
from statetrace.studies.supervise import supervise
from statetrace.studies.survey import Survey
from statetrace.studies.table import results
from statetrace.studies.worker import work
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from tests.studies.conftest import contents, prepared, study_file, undisturbed

DAMAGES = {"empty": "", "cut": '{"state": "fin', "hollow": "{}", "bytes": "\xff\xfe", "list": "[1]"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("done"))


@pytest.fixture
def study(done, tmp_path):
    shutil.copytree(done.path, tmp_path / "study")
    return Study.existing(tmp_path / "study")


def damage(study, folder, content):
    file = study.path / folder / f"{study.plan.cells[0].name}.json"
    file.write_bytes(content.encode("latin-1"))
    return file


@pytest.mark.parametrize("content", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_outcome_is_restored(study, done, content):
    file = damage(study, "outcomes", content)
    first, second = Survey(study).look()
    assert (first.state, second.state) == ("to be retried", "finished")
    assert first.why.startswith(f"{file} is damaged; ")
    assert [row["accuracy"] is None for row in results(study)] == [True, False]
    assert work(Study.existing(study.path)) == 1
    assert contents(study) == contents(done)
    assert [one.state for one in Survey(study).look()] == ["finished", "finished"]
    assert study.damages() == []


@pytest.mark.parametrize("command", ["study status", "study table", "study look", "figures"])
def test_every_command_says_which_file_it_is(study, command):
    file = damage(study, "outcomes", "{")
    said = CliRunner().invoke(app, [*command.split(), str(study.path)], env={"COLUMNS": "400"})
    assert said.exit_code == 0, said.output
    assert said.output.count(f"{file} is damaged; run the study again") == 1


@pytest.mark.parametrize("content", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_early_look_is_restored(study, done, content):
    (study.path / "outcomes" / f"{study.plan.cells[0].name}.json").unlink()
    file = damage(study, "early", content)
    first, _ = Survey(study).look()
    assert first.early is None
    assert first.why.startswith(f"{file} is damaged")
    work(study)
    assert contents(study) == contents(done)


@pytest.mark.parametrize("content", ["", "{}", '[{"why": "cut off"}]', "[3]"])
def test_damaged_failures_are_not_counted(study, content):
    (study.path / "outcomes" / f"{study.plan.cells[0].name}.json").unlink()
    damage(study, "failures", content)
    (cell, _), (first, _) = study.plan.cells, Survey(study).look()
    assert "earlier failures are not counted" in first.why
    assert not study.gave_up(cell)
    study.add_failure(cell, "it rained", "a worker")
    assert [failure["why"] for failure in study.failures(cell)] == ["it rained"]


def test_a_damaged_lease_is_open_once_it_is_stale(study, done):
    cell = study.plan.cells[0]
    (study.path / "outcomes" / f"{cell.name}.json").unlink()
    file = leases.latest(study.path / "claims", cell.name).file
    file.write_text('{"owner": {"host"')
    assert leases.take(study.path / "claims", cell.name) is None
    os.utime(file, (0, 0))
    assert "lease is damaged" in Survey(study).look()[0].why
    work(study)
    assert contents(study) == contents(done)


def test_a_study_and_a_run_do_not_share_a_folder(tmp_path):
    study = prepared(tmp_path)
    recipe = Recipe.of(dict(study.plan.cells[0].recipe))
    before = sorted(study.path.rglob("*"))
    for resume in (False, True):
        with pytest.raises(StatetraceError, match=r"study' already holds a study"):
            train(recipe, Run(study.path), Callback(), resume)
    assert sorted(study.path.rglob("*")) == before

    run = Run(tmp_path / "run")
    run.write_info({"format": 1, "recipe": recipe.to_dict()})
    with pytest.raises(StatetraceError, match=r"run' already holds a run"):
        Study.prepare(run.path, read_study(study_file(tmp_path)))
    assert [file.name for file in run.path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("arguments", ["zoo:s3-associative", "--model MODEL --group S3 --length 4"])
def test_nor_do_a_study_and_a_checkpoint_from_elsewhere(study, arguments):
    model = study.run(study.plan.cells[0]).checkpoint(30)
    said = CliRunner().invoke(
        app, ["analyze", *arguments.replace("MODEL", str(model)).split(), "--out", str(study.path)]
    )
    assert "already holds a study; choose another folder" in str(said.exception)
    assert not (study.path / "run.json").exists()
    assert json.loads((study.path / "study.json").read_text())["cells"]


def test_the_outcome_of_another_cell_does_not_count(study, done):
    """Nor that of a cell of the same name in a study with other settings."""
    first, second = (study.path / "outcomes" / f"{cell.name}.json" for cell in study.plan.cells)
    first.write_bytes(second.read_bytes())
    assert Study.existing(study.path).ended() == {study.plan.cells[1].name}
    other = Study(study.path)
    changed = [cell.name for cell in other.plan.cells]
    other.__dict__["_checksums"] = dict.fromkeys(changed, "of another recipe")
    assert other.ended() == set()
    assert work(Study.existing(study.path)) == 1
    assert contents(study) == contents(done)


@pytest.mark.parametrize("content", [*DAMAGES.values(), None], ids=[*DAMAGES, "deleted"])
def test_a_damaged_plan_is_written_again_from_the_study_file(study, tmp_path, content):
    file, before = study.path / "study.json", study.plan
    file.unlink() if content is None else file.write_bytes(content.encode("latin-1"))
    messages = []
    again = prepare_study(study_file(tmp_path), study.path, on_message=messages.append)
    assert again.plan == before
    assert [str(file) in message for message in messages] == ([] if content is None else [True])
    assert len(again.ended()) == 2


def test_but_not_if_the_cells_were_trained_with_other_settings(study, tmp_path):
    (study.path / "study.json").unlink()
    with pytest.raises(StatetraceError, match=r"seed-0' was trained with other settings"):
        prepare_study(study_file(tmp_path, dropout=0.3), study.path)


def test_workers_name_the_checkpoints_that_they_skip(study, tmp_path):
    """In the outcome, and the driver passes it on."""
    cell = study.plan.cells[0]
    (study.path / "outcomes" / f"{cell.name}.json").unlink()
    broken = study.run(cell).checkpoint(30) / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1])
    pool, messages = Inside(study), []
    states = supervise(study, pool, on_message=messages.append)
    named = [message for message in messages if str(broken.parent) in message]
    assert named == states[0].outcome["damages"]
    assert named[0].endswith("using the one before it")
    assert "damages" not in states[1].outcome


class Inside:
    """A pool whose worker runs in this process, to its end."""

    size = 1

    def __init__(self, study):
        self.study = study

    def start(self):
        work(Study.existing(self.study.path))

    def running(self):
        return 0

    def deaths(self):
        return []

    def close(self):
        pass


def test_a_full_disk_is_not_the_fault_of_a_cell(study, monkeypatch):
    cell = study.plan.cells[0]
    (study.path / "outcomes" / f"{cell.name}.json").unlink()
    monkeypatch.setattr(Study, "end", lambda *_: write_json(study.path / "study.json" / "x", {}))
    with pytest.raises(WriteError, match="cannot write"):
        work(Study.existing(study.path))
    monkeypatch.undo()
    assert study.failures(cell) == []
    assert work(Study.existing(study.path)) == 1
