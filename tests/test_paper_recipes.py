"""recipes/paper: one recipe per figure and table; each runs, and the commands it names exist."""

import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from statetrace.cli import analyze, app
from statetrace.config.recipe import Recipe
from statetrace.lenses.registry import chosen, make_spec
from statetrace.models import ModelSpec, build
from statetrace.reports.figures.catalogue import CATALOGUE
from statetrace.runs import Run
from statetrace.studies.folder import check_cells
from statetrace.studies.grid import read_study
from statetrace.training.callback import Callback
from statetrace.training.loop import train
from tests.tasks.test_sentences import byte_level

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "recipes" / "paper"
FILES = sorted(PAPER.glob("*.toml"))
ILLUSTRATED = [file for file in FILES if file.stem.startswith(("figure-", "table-"))]
STUDIES = [
    file
    for file in ILLUSTRATED
    if f"statetrace study recipes/paper/{file.name}" in file.read_text()
]

FIGURES, TABLES = range(2, 20), range(1, 3)
"""As counted in the paper; Figure 1 is a drawing (`statetrace signatures` makes it)."""

LONGEST = 100
TOY = {"sequences": 30, "batch": 2, "steps": 2, "warmup": 0, "evaluate_sequences": 2}
TOY |= {"device": "cpu", "threads": 1}
SIZE = {"layers": 1, "width": 16, "heads": 2}


@cache
def recipes(file: Path) -> dict[str, Recipe]:
    """Every recipe a file stands for, by the name of its cell; seeds apart they are different."""
    if file not in STUDIES:
        return {"": Recipe.read(file)}
    cells = read_study(file).cells
    first = cells[0].levels["seed"]
    return {c.name: Recipe.of(dict(c.recipe)) for c in cells if c.levels["seed"] == first}


def commands(file: Path) -> list[list[str]]:
    """Those in the comment on top, without the words before `statetrace`'s own."""
    found = re.findall(r"^#   (?:torchrun .* -m )?statetrace (.*)$", file.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in found]


def parsed(words: list[str]) -> tuple[str, dict]:
    """(command, its parameters), as the command line itself understands them."""
    command = get_command(app)
    context = command.make_context("statetrace", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context.info_name, context.params


def test_every_figure_and_table_has_one_recipe():
    numbered = [re.match(r"(figure|table)-(\d+)-", file.stem) for file in ILLUSTRATED]
    found = sorted((match[1], int(match[2])) for match in numbered)
    wanted = [("figure", n) for n in FIGURES] + [("table", n) for n in TABLES]
    assert found == sorted(wanted)


def test_the_table_in_the_readme_has_all_of_them():
    rows = (PAPER / "README.md").read_text().splitlines()
    for file in FILES:
        row = [line for line in rows if f"`{file.name}`" in line and line.startswith("|")]
        assert len(row) == 1, file.name
        for lens in {name for words in commands(file) for name in lenses(words)}:
            assert lens in row[0], (file.name, lens)


def lenses(words: list[str]) -> list[str]:
    name, given = parsed(words)
    return chosen(given["only"]) if name == "analyze" else []


@pytest.mark.parametrize("file", ILLUSTRATED, ids=lambda file: file.stem)
def test_the_commands_it_names_exist(file):
    named = commands(file)
    first, given = parsed(named[0])
    assert first == ("run" if file in STUDIES else "train")
    assert (ROOT / given.get("file", given.get("recipe"))).samefile(file)
    used = set()
    for words in named:
        name, given = parsed(words)
        used.add(name)
        if name == "analyze":
            for lens, settings in analyze._settings(given["setting"] or [], lenses(words)).items():
                make_spec(lens, settings)
        if name == "figures" and given["only"] is not None:
            assert set(given["only"].split(",")) <= {entry.name for entry in CATALOGUE}
        for cell in re.findall(r"/cells/([^/\s]+)", " ".join(words)):
            assert cell in recipes(file)
        for stage in re.findall(r"/stages/([^/\s]+)", " ".join(words)):
            assert all(stage in [s.name for s in one.stages] for one in recipes(file).values())
    assert used & {"analyze", "figures", "report"}


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_its_models_and_groups_exist(file):
    check_cells(read_study(file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_keeps_the_papers_training(file):
    """Apart from what runs always differ in, and how often they are looked at."""
    for recipe in recipes(file).values():
        last = recipe.stages[-1]
        same = recipe.override({"seed": 0, "threads": None}).training
        assert same == Recipe().training
        assert (last.settings.objective, last.training.steps) == ("state", 140_625)
        assert last.length in (LONGEST, 25)  # 25 sentences


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Stands for weights from the hub: family -> a folder with words of its own."""
    words = byte_level(["the quick brown fox swaps positions two and three"] * 3)
    found = {}
    for family in ("gpt2", "pythia"):
        folder = tmp_path_factory.mktemp(family)
        words.save(str(folder / "tokenizer.json"))
        build(ModelSpec(family, **SIZE), words.get_vocab_size(), 256, seed=0).save_pretrained(
            folder
        )
        found[family] = str(folder)
    return found


@pytest.fixture(scope="module")
def ran(pretrained, tmp_path_factory):
    """Trains a recipe at toy size unless one like it has been; files extend one another."""
    done: dict[str, Run] = {}

    def run(recipe: Recipe) -> Run:
        small = toy(recipe, pretrained)
        key = json.dumps(small.to_dict())
        if key not in done:
            done[key] = Run(tmp_path_factory.mktemp("run") / "run")
            assert train(small, done[key], Callback()).finished
        return done[key]

    return run


def toy(recipe: Recipe, pretrained: dict[str, str]) -> Recipe:
    """Two steps of every stage, lengths in proportion, weights from here instead of the hub."""
    tables = recipe.to_dict()
    tables["task"]["length"] = short(recipe.task.length)
    for stage in tables.get("stage", []):
        stage |= {"length": short(stage["length"])} if "length" in stage else {}
        stage |= {"steps": 2} if "steps" in stage else {}
    name = tables["model"]["name"]
    if tables["model"]["pretrained"]:
        tables["model"]["pretrained"] = pretrained["pythia" if "pythia" in name else "gpt2"]
    sections = {"model": SIZE if not tables["model"]["pretrained"] else {}}
    for section, values in tables.items():
        if isinstance(values, dict):
            values |= sections.get(section, {})
            values |= {k: v for k, v in TOY.items() if k in values}
    return Recipe.of(tables)


def short(length: int) -> int:
    return max(1, length * 8 // LONGEST)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_runs_two_steps_of_every_stage_at_toy_size(file, ran):
    for recipe in recipes(file).values():
        run = ran(recipe)
        steps = {(r.get("stage"), r["step"]) for r in run.metrics("evaluation")}
        assert steps >= {(stage.label, 2) for stage in recipe.stages}
        assert Recipe.of(run.recipe).model.name == recipe.model.name
