"""Every command and every block of Python in the documentation is executed, page by page and from
top to bottom. Commands in blocks marked as costly are executed with less: a smaller model, fewer
steps, a browser that leaves at once. ELSEWHERE lists the few that are not executed here."""

import ast
import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request

import nbformat
import pytest
from typer.testing import CliRunner

import statetrace as st
from statetrace import plugins
from statetrace.cli import app
from statetrace.config import bundled
from statetrace.config.bundled import bundled_names
from statetrace.config.recipe import Recipe
from statetrace.runs import Run
from statetrace.training.loop import train
from tests.docs.blocks import INLINE, ROOT, blocks, inline, markdown, resolve
from tests.training.conftest import toy

PAGES = markdown()
CODE = [page for page in PAGES if any(b.language in ("sh", "python") for b in blocks(page))]
HOW_TOS = sorted((ROOT / "docs" / "how-to").glob("own-*.md"))
PLAIN = {"sh", "python", "toml", "json", "text", "bibtex"}

LENGTH = "4"  # of the models here; the pages say 14
SMALLER = {
    "train": "--layers 1 --width 16 --heads 2 --length 4 --steps 4 --warmup 0 --batch 8 "
    "--sequences 300 --evaluate-sequences 50 --threads 1 --device cpu",
    "analyze": "--set subspace.sequences=200 --set subspace.pairs=8 --set subspace.train=8 "
    "--set subspace.steps=2",
    "explore": "--device cpu",
}
"""Further options of costly commands; of an option that is given twice the last one counts."""

ELSEWHERE = {
    "pip install": "the continuous integration installs the package; its extras are checked here",
    "make": "the continuous integration calls the targets; that they exist is checked here",
    "sbatch": "there is no Slurm; tests/cli/test_study.py runs the script as its tasks do",
}
"""Beginnings of commands that are not executed here, and why."""

SILENT = {"--help", "--json", "--version"}
"""Last words of commands that do not say what to do next."""

MODULE = """import statetrace as st

def make_q8():
    return st.Group.from_matrices([[[0, 1], [2, 0]], [[1, 1], [1, 2]]], modulus=3, name="Q8")
"""


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """RUN and runs/mine, run folders, FOLDER, a Hugging Face checkpoint, and small recipes."""
    folder = tmp_path_factory.mktemp("models")
    model = st.compile("associative", "S3", length=int(LENGTH), out=folder / "RUN")
    model.verdict()
    model.model.save_pretrained(folder / "FOLDER")
    steps = int(LENGTH)
    recipe = toy(layers=1, length=4, steps=steps, checkpoint_every=steps, sequences=500)
    train(recipe, Run(folder / "runs" / "mine"))
    write_small_recipes(folder / "small")
    (folder / "my_module.py").write_text(MODULE)
    tutorial = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    (folder / "docs" / "tutorials").mkdir(parents=True)
    nbformat.write(tutorial, folder / "docs" / "tutorials" / "sum.ipynb")
    return folder


def write_small_recipes(folder):
    """The bundled recipes, of which the demo and the first study take seconds."""
    shutil.copytree(bundled.RECIPES, folder)
    (folder / "demo.toml").write_text(toy(steps=8, length=5, layers=1).to_toml())
    study = folder / "studies" / "toy.toml"
    text = re.sub(r"steps = \d+", "steps = 4", study.read_text())
    text = re.sub(r"(?m)^(seeds|early|layers) = \d+", r"\1 = 1", text)
    study.write_text(re.sub(r"(?m)^warmup = \d+", "warmup = 0", text))
    settings = 'base = "../demo.toml"\nearly = 1\nseeds = 1\n[grid]\nwidth = [16]\n'
    (folder / "studies" / "tiny.toml").write_text(settings)


@pytest.fixture
def desk(models, page, tmp_path, monkeypatch):
    """A folder in which a page's commands can be typed."""
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    if "--out runs/mine" in page.read_text():
        shutil.rmtree(tmp_path / "runs")
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


def test_commands_in_messages_exist():
    for file in (ROOT / "statetrace").rglob("*.py"):
        for message in messages(ast.parse(file.read_text())):
            for command in INLINE.findall(" ".join(message.split())):
                resolve(command.replace("[", "").split())


def messages(tree):
    """The texts of a module, with `X` for what is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("page", CODE, ids=name_of)
def test_page(page, desk, monkeypatch):
    write_recipes(page, desk)
    names = {"__name__": "page", "st": st}
    for block in blocks(page):
        if block.language == "python":
            code = block.text.replace("length=14", f"length={LENGTH}")
            exec(compile(code, name_of(page), "exec"), names)
        if block.language == "sh":
            with monkeypatch.context() as patch:
                if block.mark == "costly":
                    patch.setattr(bundled, "RECIPES", desk / "small")
                for words in block.commands:
                    execute(words, block.mark == "costly", desk, patch)


def execute(words, costly, desk, patch):
    line = " ".join(words)
    if any(line.startswith(start) for start in ELSEWHERE):
        check_other(words)
        return
    words = [{"14": LENGTH, "500": LENGTH}.get(word, word) for word in words]
    if words[0] == "torchrun":
        done = run("-m", "torch.distributed.run", "--standalone", *words[1:], *small("train"))
        assert done.returncode == 0, done.stderr
    elif words[:2] == ["python", "-m"]:
        files = "/" in words[-1]
        done = run(*words[1:-1], *(map(str, desk.glob(words[-1])) if files else words[-1:]))
        assert done.returncode == 0, done.stderr
    elif "ray" in words:
        resolve(words)
        run_on_ray(words, desk)
    else:
        resolve(words)
        extra = small(words[1]) if costly else []
        if words[1] == "explore":
            patch.setattr("webbrowser.open", leave_at_once)
        loop = asyncio._get_running_loop()  # of a browser that another test of this process opened
        asyncio._set_running_loop(None)
        try:
            outcome = CliRunner().invoke(app, [*words[1:], *extra])
        finally:
            asyncio._set_running_loop(loop)
        assert outcome.exit_code == 0, (words, outcome.output, outcome.exception)
        assert "next: " in outcome.output or words[-1] in SILENT, (words, outcome.output)


def run_on_ray(words, desk):
    """A small study, in a process of its own and from its start; `auto` is a cluster that is
    already running."""
    from ray.cluster_utils import Cluster

    shutil.rmtree(desk / "runs" / "tiny", ignore_errors=True)
    study, environment, cluster = desk / "small" / f"{words[2]}.toml", dict(os.environ), None
    if "auto" in words:
        head = {"num_cpus": 1, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        environment["RAY_ADDRESS"] = cluster.address
    command = [sys.executable, "-m", "statetrace", "study", str(study), *words[3:]]
    try:
        for _ in range(3):  # Ray's core aborts a driver now and then; the next one continues
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode != -signal.SIGABRT:
                break
    finally:
        if cluster:
            cluster.shutdown()
    assert done.returncode == 0, done.stderr
    assert "16_seed-0  finished" in done.stdout, done.stdout


def small(command):
    return SMALLER.get(command, "").split()


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600)


def leave_at_once(url):
    """A browser that reads the page and presses Ctrl-C."""
    with urllib.request.urlopen(url, timeout=300) as answer:
        assert b"statetrace explorer" in answer.read()
    os.kill(os.getpid(), signal.SIGINT)


def check_other(words):
    """Options of a command that is not executed, make targets, extras of pip install."""
    if words[0] == "statetrace":
        resolve(words)
    elif words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for named in re.findall(r"\[([a-z,]+)\]", " ".join(words)):
            assert set(named.split(",")) <= set(project["optional-dependencies"])


def test_there_is_a_how_to_for_each_kind_of_plugin():
    assert {page.stem.removeprefix("own-") for page in HOW_TOS} == set(plugins.OWNERS)
    for page in HOW_TOS:
        kind = page.stem.removeprefix("own-")
        assert len(page.read_text().splitlines()) <= 70
        assert f'[project.entry-points."statetrace.{kind}"]' in page.read_text()
