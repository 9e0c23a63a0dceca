"""The models that come along: there, unharmed, and as good as their catalogue says."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from statetrace import zoo
from statetrace.cli import app
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.lenses.depth import depth
from statetrace.lenses.generalization import generalization
from statetrace.lenses.loading import load_run
from statetrace.lenses.specs import DepthSpec, GeneralizationSpec

NAMES = list(zoo.catalogue())


def test_small_enough_and_of_both_kinds():
    folder = zoo.checkpoint(NAMES[0]).parent
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert size <= 10_000_000
    kinds = {about["mechanism"] for about in zoo.catalogue().values()}
    assert kinds >= {"associative", "parity-associative"}


@pytest.mark.parametrize("name", NAMES)
def test_as_good_as_the_catalogue_says(name, tmp_path):
    subject = load_run(zoo.adopt(name, tmp_path / "run"), device="cpu")
    found = generalization(subject.model, subject.task, GeneralizationSpec(sequences=300))
    accuracy = found.summary["accuracy"]["state"]
    about = zoo.catalogue()[name]
    assert accuracy > 0.98
    assert accuracy == pytest.approx(about["accuracy"], abs=0.006)
    assert subject.task.length == about["length"]


@pytest.mark.parametrize("name", NAMES)
def test_its_recipe_is_there_and_says_the_same(name, request):
    about = zoo.catalogue()[name]
    recipe = Recipe.read(request.config.rootpath / about["recipe"])
    assert recipe.task.length == about["length"]
    assert recipe.task.group == about["group"]
    assert recipe.task.start_marker == about["start_marker"]
    assert recipe.model.name.startswith(about["model"])


@pytest.mark.parametrize(
    ("name", "grows"), [("s3-parallel", False), ("s3-parity-associative", True)]
)
def test_layers_that_an_answer_needs_tell_counting_from_composing(name, grows, tmp_path):
    subject = load_run(zoo.adopt(name, tmp_path / "run"), device="cpu")
    task = subject.task.at_length(12)
    needed = depth(subject.model, task, DepthSpec(pairs=60, lengths=(2, 12))).summary
    short, long = needed["layers_needed"]["same parity"]
    assert (long - short > 1.5) == grows


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_model_is_noticed(tmp_path, monkeypatch, name):
    copy = tmp_path / "zoo"
    shutil.copytree(zoo.checkpoint(NAMES[0]).parent, copy)
    monkeypatch.setattr(zoo, "_folder", lambda: copy)
    file = copy / NAMES[0] / name
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(StatetraceError, match=rf"{name} is damaged \(checksum"):
        zoo.checkpoint(NAMES[0])
    file.unlink()
    with pytest.raises(StatetraceError, match="is missing"):
        zoo.checkpoint(NAMES[0])


def test_an_unknown_name_is_quoted():
    with pytest.raises(StatetraceError, match=r"no model 's4'; use one of s3-associative"):
        zoo.checkpoint("s4")


def test_looked_at_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    done = run(app, ["verdict", "zoo:s3-parity-associative", "--fast", "--json"])
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["mechanism"] in (
        "parity-associative",
        "associative",
        "undecided",
    )
    assert (tmp_path / "zoo-s3-parity-associative" / "run.json").is_file()
    done = run(
        app, ["analyze", "zoo:s3-rotary", "--only", "generalization", "--out", str(tmp_path / "r")]
    )
    assert done.exit_code == 0, done.exception
    assert (tmp_path / "r" / "lenses" / "generalization.json").is_file()
    done = run(
        app, ["analyze", "zoo:s3-associative", "--only", "depth", "--out", str(tmp_path / "r")]
    )
    assert "already holds another run" in str(done.exception)
