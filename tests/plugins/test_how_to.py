"""The how-tos: at most a page each, and every block of Python runs."""

import re
from pathlib import Path

import pytest

from statetrace import plugins

PAGES = sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("own-*.md"))


@pytest.fixture(autouse=True)
def forgets_what_was_registered():
    before = dict(plugins._registered)
    yield
    plugins._registered.clear()
    plugins._registered.update(before)


def test_there_is_one_for_each_kind():
    assert {page.stem.removeprefix("own-") for page in PAGES} == set(plugins.OWNERS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_is_a_page_whose_code_runs(page, tmp_path, monkeypatch, capsys):
    text = page.read_text()
    kind = page.stem.removeprefix("own-")
    assert len(text.splitlines()) <= 70
    assert f'[project.entry-points."statetrace.{kind}"]' in text
    monkeypatch.chdir(tmp_path)
    names = {"__name__": f"how_to_{kind}"}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    assert capsys.readouterr().out
    assert plugins.names(kind)
