"""The project's results, and folders like those of results/ made for tests."""

import json

import pytest

from reproduction.model_selection import Selection
from reproduction.tables import Tables
from statetrace.files import write_json
from statetrace.lenses.result import LensResult
from statetrace.studies.folder import Study


@pytest.fixture(scope="session")
def tables(request):
    return Tables(request.config.rootpath)


@pytest.fixture(scope="session")
def selection(tables):
    return Selection(tables)


@pytest.fixture
def project(tmp_path, request):
    """A project with links to all of results/, to add folders to."""
    (tmp_path / "results" / "zoo").mkdir(parents=True)
    for path in (request.config.rootpath / "results").iterdir():
        if path.name != "zoo":
            (tmp_path / "results" / path.name).symlink_to(path)
    return tmp_path


def add_study(project, name, cells, like="scratch"):
    """A study of cells {(model, regime, seed): changed columns}, with models of another one."""
    results = project / "results"
    template = Study.existing(results / like)
    plan, outcomes = json.loads((template.path / "study.json").read_text()), {}
    planned = []
    for (model, regime, seed), changed in cells.items():
        source = next(c for c in template.plan.cells if c.recipe["model"]["name"] == model)
        recipe = json.loads(json.dumps(source.recipe))
        recipe["training"]["seed"] = seed
        recipe["stage"] = [{"objective": regime}, {"objective": "state"}]
        cell = f"{model}_{regime}_seed-{seed}"
        planned.append({"name": cell, "recipe": recipe,
                        "levels": {"model": model, "regime": regime, "seed": seed}})  # fmt: skip
        final = dict(template.outcome(source)["final"])
        names = {"verdict": "mechanism", "quick_verdict": "quick"}
        final |= {names.get(key, key): value for key, value in changed.items()}
        outcomes[cell] = {"state": "finished", "tries": 1, "final": final}
        write_json(results / name / "cells" / cell / "run.json", {"recipe": recipe})
    write_json(results / name / "study.json", plan | {"cells": planned})
    for cell, outcome in outcomes.items():
        write_json(results / name / "outcomes" / f"{cell}.json", outcome)


def add_patching(project, name, fronts, opposite=None, length=8, n=(9, 9), spread=0.0):
    """Lens results of one model whose layer l needs the first fronts[l] actions."""
    folder = project / "results" / name
    splits = {"same parity": (fronts, n[0]), "opposite parity": (opposite or fronts, n[1]),
              "all": (fronts, sum(n))}  # fmt: skip
    rows = [
        {"where": where, "what": "substitution", "kind": "resid", "layer": layer, "head": None,
         "position": position, "split": split, "metric": "nld",
         "mean": float(position + 1 >= front), "std": spread, "n": pairs}
        for where in ("prefix", "window", "suffix")
        for split, (layers, pairs) in splits.items()
        for layer, front in enumerate(layers)
        for position in range(length)
    ]  # fmt: skip
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    LensResult("patching", {}, columns, summary={"length": length}).save(folder / "lenses")
    task = {"group": "S3", "length": length, "notation": "moves"}
    write_json(folder / "run.json", {"recipe": None, "foreign": task})
