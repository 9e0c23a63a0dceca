"""Every command and every block of Python in the documentation is executed, or, where it is marked
as costly, checked: the command and its options, recipes, extras and make targets exist."""

import ast
import re
import shutil
import tomllib

import pytest
from typer.testing import CliRunner

import statetrace as st
from statetrace import plugins
from statetrace.cli import app
from statetrace.config.bundled import bundled_names, locate
from statetrace.config.recipe import Recipe
from tests.docs.blocks import ROOT, blocks, inline, markdown, resolve

PAGES = markdown()
WITH = {
    language: [page for page in PAGES if any(b.language == language for b in blocks(page))]
    for language in ("sh", "python")
}
HOW_TOS = sorted((ROOT / "docs" / "how-to").glob("own-*.md"))
LENGTH = "4"  # of the models here, to be quick; the pages say 14
PLAIN = {"sh", "python", "toml", "json", "text", "bibtex"}


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """RUN, a run folder, and FOLDER, a Hugging Face checkpoint."""
    folder = tmp_path_factory.mktemp("models")
    model = st.compile("associative", "S3", length=int(LENGTH), out=folder / "RUN")
    model.verdict()
    model.model.save_pretrained(folder / "FOLDER")
    return folder


@pytest.fixture
def desk(models, tmp_path, monkeypatch):
    """A folder in which a page's commands can be typed."""
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    for folder in ("recipes", "results"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_recipes(page, folder):
    """The recipes of a page, or of the page about recipes, as recipe.toml, recipe-2.toml, ..."""
    source = page if any(b.mark == "recipe" for b in blocks(page)) else ROOT / "docs/recipes.md"
    texts = [b.text for b in blocks(source) if b.mark == "recipe"]
    for number, text in enumerate(texts, start=1):
        (folder / f"recipe{f'-{number}' if number > 1 else ''}.toml").write_text(text)
    for file in folder.glob("recipe*.toml"):
        Recipe.read(file)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_says_what_it_is(page):
    for block in blocks(page):
        assert block.mark in (None, "costly", "recipe")
        assert block.language in PLAIN or "statetrace " not in block.text, block.text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_exist(page):
    for words in inline(page):
        resolve([word.strip("[].") for word in words if not word.startswith("[")])
    for name in re.findall(r"[` ]((?:paper|regimes|studies)/[\w-]+)`", page.read_text()):
        assert name in bundled_names()


@pytest.mark.parametrize("page", WITH["sh"], ids=name_of)
def test_shell(page, desk):
    write_recipes(page, desk)
    for block in blocks(page):
        if block.language != "sh":
            continue
        for words in block.commands:
            if "statetrace" not in words:
                check_other(words)
                continue
            words = words[words.index("statetrace") :]
            command, rest = resolve(words)
            names = [p.name for p in command.params if p.param_type_name == "argument"]
            if names[:1] in (["recipe"], ["file"]) and rest and not rest[0].startswith("-"):
                assert locate(rest[0]).is_file() or (desk / rest[0]).is_file(), rest[0]
            if block.mark != "costly":
                words = [LENGTH if word == "14" else word for word in words]
                outcome = CliRunner().invoke(app, words[1:])
                assert outcome.exit_code == 0, (words, outcome.output, outcome.exception)


def check_other(words):
    """make targets, and extras of pip install."""
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in words[1:] if "=" not in word} <= set(targets)
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        for named in re.findall(r"\[([a-z,]+)\]", " ".join(words)):
            assert set(named.split(",")) <= set(extras)
    else:
        assert words[0] in ("cd", "git", "source", "python", "sbatch", "ray"), words
        assert words[:2] != ["python", "-m"] or (ROOT / words[2].split(".")[0]).is_dir()


@pytest.mark.parametrize("page", WITH["python"], ids=name_of)
def test_python(page, desk):
    names = {"__name__": "page", "st": st}
    for block in blocks(page):
        if block.language != "python":
            continue
        code = compile(block.text.replace("length=14", f"length={LENGTH}"), name_of(page), "exec")
        if block.mark == "costly":
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "st":
                    assert hasattr(st, node.attr), node.attr
        else:
            exec(code, names)


def test_there_is_a_how_to_for_each_kind_of_plugin():
    assert {page.stem.removeprefix("own-") for page in HOW_TOS} == set(plugins.OWNERS)
    for page in HOW_TOS:
        kind = page.stem.removeprefix("own-")
        assert len(page.read_text().splitlines()) <= 70
        assert f'[project.entry-points."statetrace.{kind}"]' in page.read_text()
