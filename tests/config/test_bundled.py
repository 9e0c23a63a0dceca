"""Recipes by name: the names of the package, files beside them, and files that extend them."""

from __future__ import annotations

from pathlib import Path

import pytest

from statetrace.config.bundled import RECIPES, bundled_names, locate
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.studies.grid import read_study

ROOT = Path(__file__).parents[2]


def test_names_and_the_checkouts_paths_are_the_same_recipes(monkeypatch, tmp_path):
    files = {file.relative_to(ROOT) for file in (ROOT / "recipes").rglob("*.toml")}
    assert {Path("recipes", f"{name}.toml") for name in bundled_names()} == files
    monkeypatch.chdir(tmp_path)  # where there is no recipes/
    for name in ("demo", "recipes/demo", "recipes/demo.toml"):
        assert Recipe.read(Path(name)) == Recipe.read(ROOT / "recipes" / "demo.toml")


def test_a_file_takes_precedence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert locate("demo.toml") == RECIPES / "demo.toml"
    Path("demo.toml").write_text("[task]\nlength = 5\n")
    assert Recipe.read(Path("demo.toml")).task.length == 5
    Path("demo").mkdir()
    assert Recipe.read(Path("demo")).task.length == 12


def test_own_files_build_on_bundled_ones(tmp_path):
    recipe, study = tmp_path / "recipe.toml", tmp_path / "study.toml"
    recipe.write_text('extends = "demo"\n[task]\nlength = 5\n')
    assert Recipe.read(recipe) == Recipe.read(Path("demo")).override({"length": 5})
    study.write_text('base = "demo"\nseeds = 2\n')
    assert len(read_study(study).cells) == 2


@pytest.mark.parametrize("name", ["dmeo", "recipes/dmeo.toml", "../demo", "/demo"])
def test_unknown_names_get_one_sentence(name):
    with pytest.raises(StatetraceError, match=rf"there is no recipe '{name}'; .*recipes` lists"):
        Recipe.read(Path(name))
