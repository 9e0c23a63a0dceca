"""Every number of the page can be traced to the runs it was measured on."""

import json

import pytest

from reproduction.results import Results
from statetrace.config.recipe import Recipe
from statetrace.studies.folder import FINISHED

OTHER_CODE = "other-code-"
"""Models of the calibration that were not trained by this package: no row counts them."""

SPEED = "training-step"
"""Times of steps, not models: hardware and versions stand in the files themselves."""


@pytest.fixture
def results(request):
    return Results(request.config.rootpath)


def folders(results):
    found = [path for path in (results.root / "results").iterdir() if path.is_dir()]
    found += [path for path in (results.root / "results" / "zoo").iterdir() if path.is_dir()]
    return [path for path in found if path.name not in ("zoo", "calibration", SPEED)]


def test_a_finished_cell_has_its_run(results):
    studies = [path for path in folders(results) if (path / "results.csv").is_file()]
    assert len(studies) > 10
    for study in studies:
        for row in results.study(study.name):
            if row["state"] != FINISHED:
                continue
            recipe = Recipe.of(
                results.json(f"results/{study.name}/runs/{row['cell']}.json")["recipe"]
            )
            assert (recipe.task.group, recipe.task.length) == (row["group"], row["length"])
            assert (recipe.model.name, recipe.training.seed) == (row["model"], row["seed"])


def test_a_model_that_was_looked_into_has_its_run(results):
    models = [path for path in folders(results) if not (path / "results.csv").is_file()]
    assert len(models) > 15
    for folder in models:
        recipe = json.loads((folder / "run.json").read_text())["recipe"]
        if folder.parent.name == "zoo":  # weights that ship with the package name their recipe
            Recipe.read(results.root / recipe)
        else:
            Recipe.of(recipe)


def test_evidence_is_of_cells_that_there_are(results):
    there = [path for path in folders(results) if (path / "evidence.csv").is_file()]
    assert there
    for study in there:
        cells = {row["cell"] for row in results.study(study.name)}
        told = {row["cell"] for row in results.table(f"results/{study.name}/evidence.csv")}
        assert told <= cells


def test_calibrations_models_have_theirs(results):
    names = {row["name"] for row in results.lines("results/calibration/trained.jsonl")}
    kept = {path.stem for path in (results.root / "results/calibration/runs").glob("*.json")}
    assert kept == {name for name in names if not name.startswith(OTHER_CODE)}
