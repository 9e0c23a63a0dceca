"""The generated reference covers the code, and the pictures are those of the script."""

import dataclasses
import re

import numpy as np
import pytest
from PIL import Image

import statetrace as st
from statetrace.config.recipe import SECTIONS
from statetrace.glossary import terms
from statetrace.lenses.registry import BUILTIN
from website.__main__ import loaded_from_the_network
from website.pictures import FOLDER, PICTURES, draw
from website.reference import GENERATED, MARK, fill
from website.stage import LINK, ROOT, pages

REFERENCE = ROOT / "docs" / "reference"


def filled(name):
    return fill((REFERENCE / f"{name}.md").read_text())


def test_every_generated_part_is_on_a_page():
    marks = [MARK.search(page.read_text()) for page in REFERENCE.glob("*.md")]
    assert {mark["name"] for mark in marks if mark} == set(GENERATED)


def test_commands_and_options():
    from statetrace.cli import app

    page = filled("commands")
    for command in app.registered_commands:
        assert command.hidden or f"## `statetrace {command.name}`" in page
    assert "--learning-rate" in page
    assert "## `statetrace study status`" in page


def test_settings():
    for page, kinds in (
        ("recipe-keys", SECTIONS.values()),
        ("lens-settings", [lens.spec for lens in BUILTIN.values()]),
    ):
        text = filled(page)
        for kind in kinds:
            for field in dataclasses.fields(kind):
                assert f"| `{field.name}` |" in text


def test_glossary():
    text = filled("glossary")
    assert all(f"**{term}**" in text for term in terms())


def test_public_names():
    text = (REFERENCE / "python.md").read_text()
    missing = [n for n in st.__all__ if f"::: statetrace.{n}\n" not in text]
    assert missing == ["StatetraceError"]


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "zensical.toml").read_text()
    listed = set(re.findall(r'"([^"]+\.md)"', navigation))
    assert {str(name) for name in pages().values() if name.suffix == ".md"} == listed


def test_links_of_the_readme():
    for match in LINK.finditer((ROOT / "README.md").read_text()):
        target = match["target"].partition("#")[0]
        assert "://" in target or (ROOT / target).exists(), target


def test_what_a_site_loads_from_the_network(tmp_path):
    local = '<link rel="stylesheet" href="site.css"><a href="https://arxiv.org">paper</a>'
    (tmp_path / "index.html").write_text(local)
    assert list(loaded_from_the_network(tmp_path)) == []
    for name, text in {
        "fonts.html": '<link rel="stylesheet" href="https://fonts.example/css?family=A">',
        "script.html": "<script defer src=//cdn.example/a.js></script>",
        "site.css": '@import "https://fonts.example/css"; a { background: url(http://a.example) }',
    }.items():
        (tmp_path / name).write_text(text)
    named = [line.partition(":")[0] for line in loaded_from_the_network(tmp_path)]
    assert named == ["fonts.html", "script.html", "site.css", "site.css"]


def test_every_picture_has_a_function_and_a_page():
    assert {file.stem for file in (ROOT / FOLDER).glob("*.png")} == set(PICTURES)
    texts = " ".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in PICTURES if f"pictures/{name}.png" not in texts] == []


@pytest.mark.parametrize("name", ["word-problem", "signatures"])
def test_pictures_that_need_no_model_are_current(name, tmp_path):
    drawn, kept = (
        np.asarray(Image.open(file).convert("L").resize((200, 150)), dtype=float)
        for file in (draw(name, tmp_path), ROOT / FOLDER / f"{name}.png")
    )
    assert np.abs(drawn - kept).mean() < 4
