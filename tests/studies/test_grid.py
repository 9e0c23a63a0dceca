"""Study files: which cells they span, and what they refuse."""

from pathlib import Path

import pytest

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.files import read_json, write_json
from statetrace.studies.folder import Study, check_cells, prepare_study
from statetrace.studies.grid import DATA_ORDERS, StudyPlan, read_study
from tests.studies.conftest import prepared, study_file

GRID = """
[grid]
model = ["gpt2", "pythia"]

[grid.size.small]
layers = 1

[grid.size.large]
layers = 2
width = 32

[grid.regime.plain]

[grid.regime.topic]
stages = [
    { objective = "topic", table = "paper-1", steps = 5 },
    { objective = "state", learning_rate = 1e-3 },
]

[[exclude]]
model = "pythia"
regime = "topic"
"""


def test_a_grid_spans_its_cells(tmp_path):
    plan = read_study(study_file(tmp_path, seeds=[3, 5], grid=GRID))
    assert len(plan.cells) == (2 * 2 * 2 - 2) * 2
    assert plan.factors == ("model", "size", "regime", "seed")
    by_name = {cell.name: cell for cell in plan.cells}
    cell = by_name["gpt2_large_topic_seed-5"]
    assert cell.levels == {"model": "gpt2", "size": "large", "regime": "topic", "seed": 5}
    recipe = Recipe.of(dict(cell.recipe))
    assert (recipe.model.layers, recipe.model.width, recipe.training.seed) == (2, 32, 5)
    assert [(s.name, s.training.steps) for s in recipe.stages] == [("1-topic", 5), ("2-state", 30)]
    assert recipe.stages[1].training.learning_rate == 1e-3
    assert recipe.training.threads == 1
    assert not any("pythia" in name and "topic" in name for name in by_name)


def test_grids_add_up(tmp_path):
    grid = """
        [[grid]]
        model = ["gpt2"]
        [grid.initialisation.pretrained]
        pretrained = "theirs"

        [[grid]]
        model = ["pythia", "llama"]
        [grid.initialisation.pretrained]
        pretrained = "others"
    """
    plan = read_study(study_file(tmp_path, seeds=1, grid=grid))
    got = {cell.name: cell.recipe["model"]["pretrained"] for cell in plan.cells}
    assert got == {
        "gpt2_pretrained_seed-0": "theirs",
        "pythia_pretrained_seed-0": "others",
        "llama_pretrained_seed-0": "others",
    }


def test_twelve_data_orders_unless_told_otherwise(tmp_path):
    (tmp_path / "plain.toml").write_text("")
    plan = read_study(tmp_path / "plain.toml")
    assert [cell.levels["seed"] for cell in plan.cells] == list(range(DATA_ORDERS)) == [*range(12)]
    assert plan.settings.early == 10_000


def test_a_plan_survives_json(tmp_path):
    study = prepared(tmp_path, grid=GRID)
    plan = read_study(tmp_path / "toy.toml")
    assert Study(study.path).plan == plan == StudyPlan.of(plan.to_dict())


REFUSED = {
    "unknown setting 'modle'": {"grid": '[grid]\nmodle = ["gpt2"]'},
    "did you mean 'layers'": {"grid": "[grid.size.small]\nlayer = 2"},
    "has no levels": {"grid": "[grid]\nmodel = []"},
    "not a factor; list seeds": {"grid": "[grid]\nseed = [1, 2]"},
    r"seeds \[1, 1\]": {"seeds": "[1, 1]"},
    "verdict 'slow' is unknown": {"verdict": "slow"},
    "excludes every combination": {"grid": '[grid]\nmodel = ["gpt2"]\n[[exclude]]\nmodel = "gpt2"'},
    "level of model 'gpt3'": {"grid": '[grid]\nmodel = ["gpt2"]\n[[exclude]]\nmodel = "gpt3"'},
    "two cells called": {"grid": '[grid.regime."a b"]\n[grid.regime."a-b"]'},
    "two factors set stages": {
        "grid": '[grid.a.x]\nstages = [{objective = "state"}]\n'
        '[grid.b.y]\nstages = [{objective = "state"}]'
    },
    "last stage is 'parity'": {"grid": '[grid.a.x]\nstages = [{objective = "parity"}]'},
    "have different factors": {"grid": "[[grid]]\nlayers = [1]\n[[grid]]\nwidth = [16]"},
    "regime x: batch 0 is too small": {"grid": "[grid.regime.x]\nbatch = 0"},
}


@pytest.mark.parametrize(("words", "about"), REFUSED.items())
def test_nonsense_is_refused_in_a_sentence(tmp_path, words, about):
    with pytest.raises(StatetraceError, match=words):
        read_study(study_file(tmp_path, **about))


def test_the_recipe_of_one_run_is_no_study(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[task]\nlength = 4")
    with pytest.raises(StatetraceError, match=r"one run; use `statetrace train .*run.toml"):
        read_study(file)


def test_a_study_may_grow_but_not_change(tmp_path):
    small = prepared(tmp_path, seeds=2)
    large = prepared(tmp_path, seeds=3)
    assert len(large.plan.cells) == 3
    with pytest.raises(StatetraceError, match="'seed-2'"):
        prepared(tmp_path, seeds=2)
    with pytest.raises(StatetraceError, match=r"'seed-0'.*planned with other settings"):
        prepared(tmp_path, seeds=3, settings="init_std = 0.1")
    with pytest.raises(StatetraceError, match=r"retries=2.*retries=7"):
        prepared(tmp_path, seeds=3, rules="retries = 7")
    assert small.path == large.path


def test_the_study_of_an_older_version_lacks_settings(tmp_path):
    file = prepared(tmp_path, seeds=2).path / "study.json"
    plan = {key: value for key, value in read_json(file).items() if key != "content_sha256"}
    for cell in plan["cells"]:
        del cell["recipe"]["training"]["most_steps"]
    write_json(file, plan)
    assert len(prepared(tmp_path, seeds=3).plan.cells) == 3


def test_a_study_may_extend_another(tmp_path):
    """Recipes it names are found from where they are named; lists replace, tables grow."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "recipe.toml").write_text("[task]\nlength = 7\n[training]\nsteps = 9")
    (there / "stages.toml").write_text('[[stage]]\nobjective = "control"\n[[stage]]')
    (there / "a.toml").write_text(
        'base = "recipe.toml"\nseeds = 2\n[grid]\nlayers = [1, 2]\n'
        '[grid.regime.first]\nstages = "stages.toml"'
    )
    (tmp_path / "b.toml").write_text(
        'extends = "there/a.toml"\nseeds = 1\n[settings]\nwidth = 16\n'
        "[grid]\nlayers = [3]\n[grid.regime.plain]"
    )
    cells = read_study(tmp_path / "b.toml").cells
    assert [cell.name for cell in cells] == ["3_first_seed-0", "3_plain_seed-0"]
    for cell, stages in zip(cells, (2, 1), strict=True):
        recipe = Recipe.of(dict(cell.recipe))
        assert (recipe.task.length, recipe.training.steps, recipe.model.width) == (7, 9, 16)
        assert len(recipe.stages) == stages
    assert len(read_study(there / "a.toml").cells) == 4


STUDIES = sorted((Path(__file__).parents[2] / "recipes" / "studies").glob("*.toml"))


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_every_shipped_study_makes_sense(file):
    plan = read_study(file)
    check_cells(plan)
    assert len({cell.levels["seed"] for cell in plan.cells}) > 1


def test_a_model_that_does_not_exist_is_found_before_training(tmp_path):
    file = study_file(tmp_path, grid='[grid]\nmodel = ["gpt2", "gpt17"]')
    with pytest.raises(StatetraceError, match="cell 'gpt17_seed-0': unknown model 'gpt17'"):
        prepare_study(file, tmp_path / "study")
    assert not (tmp_path / "study").exists()
