"""The project's results, and folders like those of results/ made for tests."""

import pytest

from reproduction.judged import Judged
from reproduction.lens_model import AA, PAA
from reproduction.model_selection import Selection
from reproduction.tables import Tables
from statetrace.files import write_json
from statetrace.lenses.result import LensResult


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


def model_of(associative, **row):
    """A checkpoint that has learned its task and is associative, or parity-associative."""
    model = Judged({"group": "S3", "accuracy": 1.0, "parity_accuracy": 1.0} | row, [])
    likely = 0.9 if associative else 0.1
    model.probabilities = {AA: likely, PAA: 1 - likely}
    return model
