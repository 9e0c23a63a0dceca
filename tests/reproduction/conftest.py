"""The project's results, and folders like those of results/ made for tests."""

import csv
import json
import shutil

import pytest

from reproduction.model_selection import Selection
from reproduction.tables import Tables


@pytest.fixture(scope="session")
def tables(request):
    return Tables(request.config.rootpath)


@pytest.fixture(scope="session")
def selection(tables):
    return Selection(tables)


@pytest.fixture
def project(tmp_path, request):
    """A copy of results/ to add folders to."""
    shutil.copytree(request.config.rootpath / "results", tmp_path / "results")
    return tmp_path


def write_csv(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def add_study(project, name, cells, like="scratch"):
    """A study of cells {(model, regime, seed): changed columns}, laid out as results/scratch."""
    folder = project / "results" / name
    template = Tables(project).csv(f"{like}/results.csv")
    rows = []
    for (model, regime, seed), changed in cells.items():
        row = next(row for row in template if row["model"] == model)
        info = json.loads((project / "results" / like / "runs" / f"{row['cell']}.json").read_text())
        cell = f"{model}_{regime}_seed-{seed}"
        info["recipe"]["training"]["seed"] = seed
        info["recipe"]["stage"] = [{"objective": regime}, {"objective": "state"}]
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        (folder / "runs" / f"{cell}.json").write_text(json.dumps(info))
        rows.append(row | {"cell": cell, "regime": regime, "seed": seed} | changed)
    write_csv(folder / "results.csv", rows)


def add_patching(project, name, fronts, opposite=None, length=8, n=(9, 9), spread=0.0):
    """Lens results of one model whose layer l needs the first fronts[l] actions."""
    folder = project / "results" / name
    splits = {"same parity": (fronts, n[0]), "opposite parity": (opposite or fronts, n[1]),
              "all": (fronts, sum(n))}  # fmt: skip
    rows = [
        {"where": where, "what": "substitution", "layer": layer, "position": position,
         "split": split, "metric": "nld", "mean": float(position + 1 >= front), "std": spread,
         "n": pairs, "median": 0.0}
        for where in ("prefix", "window", "suffix")
        for split, (layers, pairs) in splits.items()
        for layer, front in enumerate(layers)
        for position in range(length)
    ]  # fmt: skip
    write_csv(folder / "patching.csv", rows)
    about = {"lens": "patching", "subject": {}, "spec": {}, "summary": {"length": length}}
    (folder / "patching.json").write_text(json.dumps(about))
    (folder / "run.json").write_text(json.dumps({"recipe": None, "foreign": {"group": "S3"}}))
