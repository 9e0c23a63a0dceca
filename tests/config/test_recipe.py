"""Recipes: what they accept, what they refuse, and that the shipped ones are the paper's."""

import tomllib
from pathlib import Path

import pytest

from statetrace.config.recipe import OPTIONS, Recipe
from statetrace.errors import StatetraceError
from statetrace.models.from_recipe import make_task, model_spec
from statetrace.runs import Run
from statetrace.training.callback import Callback
from statetrace.training.loop import train

RECIPES = sorted(
    file
    for file in (Path(__file__).parents[2] / "recipes").rglob("*.toml")
    # studies are grids of runs (tests/studies); test_paper_recipes.py has the paper's
    if file.parent.name not in ("studies", "paper")
)


def name(path: Path) -> str:
    return path.stem


def test_defaults_are_the_papers():
    recipe = Recipe()
    assert recipe.task.length == 100
    assert recipe.task.analysis_fraction == 0.1
    training = recipe.training
    assert (training.batch, training.learning_rate, training.schedule) == (128, 5e-5, "linear")
    assert training.steps == 20 * 900_000 // 128
    assert (training.warmup, training.weight_decay, training.clip) == (0, 0.0, 1.0)
    assert (training.beta1, training.beta2) == (0.9, 0.999)


@pytest.mark.parametrize("path", RECIPES, ids=name)
def test_shipped_recipes_parse_and_run_a_step_at_toy_size(path, tmp_path):
    recipe = Recipe.read(path)
    make_task(recipe)
    model_spec(recipe)
    toy = {"length": 4, "layers": 1, "width": 32, "heads": 2, "sequences": 200, "batch": 8}
    toy |= {"steps": 1, "warmup": 0, "evaluate_sequences": 8, "device": "cpu", "accumulate": 1}
    outcome = train(recipe.override(toy), Run(tmp_path / "run"), Callback())
    assert outcome.finished


@pytest.mark.parametrize("path", RECIPES, ids=name)
def test_a_recipe_survives_being_written(path):
    recipe = Recipe.read(path)
    assert Recipe.of(tomllib.loads(recipe.to_toml())) == recipe
    assert Recipe.of(recipe.to_dict()) == recipe


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[training]\nstepz = 3", r"unknown setting 'stepz' in \[training\].*did you mean 'steps'"),
        ("[trainin]\nsteps = 3", r"unknown section 'trainin'.*did you mean 'training'"),
        ("steps = 3", r"unknown section 'steps'"),
        ("task = 3", r"'task = 3'.*outside of a table"),
        ('[training]\nsteps = "many"', r"steps must be a whole number, not 'many'"),
        ("[training]\nsteps = 2.5", r"steps must be a whole number, not 2.5"),
        ("[task]\nstart_marker = 1", r"start_marker must be true or false, not 1"),
        ("[task]\nlength = 0", r"length 0 is too small"),
        ("[training]\nbatch = 10\naccumulate = 4", r"batch 10 .* 4 equal parts"),
        ("[training]\nsteps = 5\nwarmup = 9", r"warmup 9 takes up all 5"),
        ('[training]\nschedule = "wavy"', r"schedule 'wavy' is unknown; use one of linear"),
        ("[training]\nlearning_rate = -1.0", r"learning_rate -1.0 is not positive"),
        ("[training]\nlearning_rate = nan", r"learning_rate nan is not positive"),
        ("[task]\nanalysis_fraction = 1.5", r"analysis_fraction 1.5"),
        ("[training\n", r"is not valid TOML"),
        ('extends = "gone.toml"', r"there is no recipe '.*gone.toml', which recipe .*bad.toml'"),
        ('extends = "bad.toml"', r"extend one another in a circle: .*bad.toml' -> .*bad.toml'"),
        (
            "seeds = 3",
            r"'.*bad.toml' is a study, not a recipe; use `statetrace study .*bad.toml --out",
        ),
        ("extends = 3", r"extends 3 in recipe '.*bad.toml' is not"),
    ],
)
def test_bad_recipes_are_quoted(tmp_path, text, complaint):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(StatetraceError, match=complaint):
        Recipe.read(file)


def test_a_recipe_may_extend_another(tmp_path):
    """From its own folder, over two generations; what is written down needs neither file."""
    (tmp_path / "base").mkdir()
    base, middle, own = tmp_path / "base" / "a.toml", tmp_path / "base" / "b.toml", tmp_path / "c"
    base.write_text('[task]\ngroup = "S5"\nlength = 7\n[[stage]]\nobjective = "control"\nsteps = 3')
    middle.write_text('extends = "a.toml"\n[task]\nlength = 9\n[model]\nname = "pythia"')
    own.write_text('extends = "base/b.toml"\n[training]\nsteps = 5\n[[stage]]\nobjective = "state"')
    recipe = Recipe.read(own)
    assert (recipe.task.group, recipe.task.length, recipe.model.name) == ("S5", 9, "pythia")
    assert recipe.training.steps == 5
    assert [stage.settings.objective for stage in recipe.stages] == ["state"]
    assert [stage.settings.objective for stage in Recipe.read(middle).stages] == ["control"]
    assert Recipe.of(tomllib.loads(recipe.to_toml())) == recipe


def test_overrides_win_and_are_checked():
    recipe = Recipe().override({"steps": 7, "model": "pythia-70m", "learning_rate": 1})
    assert (recipe.training.steps, recipe.model.name) == (7, "pythia-70m")
    assert recipe.training.learning_rate == 1.0
    assert recipe.override({"steps": 9}).task == recipe.task
    with pytest.raises(StatetraceError, match="batch 12"):
        recipe.override({"batch": 12, "accumulate": 5})


def test_option_names_are_unique():
    assert len(OPTIONS) == sum(len(section) for section in Recipe().to_dict().values())


def test_differences_name_both_values():
    changed = Recipe().override({"steps": 7})
    assert changed.differences(Recipe()) == ["steps 7, not 140625"]
    assert changed.differences(changed) == []
