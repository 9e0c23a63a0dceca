"""Presets: what a run without a recipe is trained with."""

import dataclasses

import pytest

from statetrace.api import resolve_recipe
from statetrace.config.presets import LAPTOP, preset_recipe
from statetrace.config.recipe import OPTIONS, Recipe
from statetrace.errors import StatetraceError
from statetrace.groups import group


@pytest.mark.parametrize(("name", "length"), [("S3", 16), ("Z6", 8), ("D4", 8), ("S4", 8)])
def test_laptop_needs_only_group_and_length(name, length):
    recipe = preset_recipe({"group": name, "length": length})
    assert (recipe.task.group, recipe.task.length) == (name, length)
    assert recipe.model.width == {"D4": 64, "S4": 64}.get(name, 32)
    assert recipe.training.stop_learned == LAPTOP["stop_learned"]
    assert recipe.training.most_steps == 2 * recipe.training.steps
    assert recipe == Recipe.of(recipe.to_dict())


@pytest.mark.parametrize("named", [{"model": "gpt2"}, {"pretrained": "folder"}])
def test_a_named_model_has_the_papers_defaults(named):
    assert preset_recipe(named) == Recipe().override(named)
    assert preset_recipe(named, "laptop").model.width == 32


def test_options_override_every_setting_of_the_preset():
    values = {"length": 5, "steps": 7, "layers": 2, "warmup": 3, "width": 32, "learning_rate": 1.0}
    recipe = preset_recipe(values)
    for option, value in values.items():
        section, name = OPTIONS[option]
        assert getattr(getattr(recipe, section), name) == value
    few = preset_recipe({"steps": 2}).training
    assert (few.warmup, few.most_steps) == (0, None)  # fits any number of steps


def test_a_recipe_is_unaffected(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text("[task]\nlength = 5\n")
    assert resolve_recipe(file, None, False, {}) == Recipe().override({"length": 5})
    with pytest.raises(StatetraceError, match="preset 'laptop' has no effect with a recipe"):
        resolve_recipe(file, None, False, {}, "laptop")


def test_the_size_depends_on_the_order_of_a_group_of_ones_own():
    own = dataclasses.replace(group("Z12"), name="mine")
    recipe = preset_recipe({"group": "mine", "length": 8}, states=own)
    assert (recipe.model.layers, recipe.model.width, recipe.training.steps) == (5, 64, 9450)
