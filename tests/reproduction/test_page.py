"""REPRODUCTION.md is what the command builds, complete, and every number of it has a file."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter

import pytest

from reproduction.__main__ import OLD, PAGE
from reproduction.claim import answer, size
from reproduction.claims import CLAIMS, PARTS, deletions, patching, text, theory
from reproduction.figures.build import FOLDER, PICTURES, UNDRAWN, fingerprints
from reproduction.page import page
from reproduction.results import Results
from reproduction.rules import DIFFERS, JUDGEMENTS, NOT_REACHED

FIGURES, TABLES = range(1, 20), range(1, 3)
LARGEST = 200_000
"""Bytes of a picture."""


@pytest.fixture(scope="module")
def root(request):
    return request.config.rootpath


@pytest.fixture(scope="module")
def answers(root):
    found = Results(root)
    return {claim.name: answer(claim, found) for claim in CLAIMS}


def test_the_page_is_up_to_date(root):
    assert (root / PAGE).read_text() == page(Results(root)), "run `make reproduce-report`"


def test_the_pictures_are_up_to_date(root):
    marks = fingerprints(Results(root))
    assert json.loads((root / FOLDER / "pictures.json").read_text()) == marks
    assert {file.stem for file in (root / FOLDER).glob("*.png")} == set(marks)
    for name in marks:
        file = root / FOLDER / f"{name}.png"
        assert file.read_bytes()[:4] == b"\x89PNG"
        assert file.stat().st_size < LARGEST


def test_names_are_unique_and_pictures_exist():
    assert Counter(claim.name for claim in CLAIMS).most_common(1)[0][1] == 1
    assert {claim.picture for claim in CLAIMS} - {""} == set(PICTURES)


def test_every_number_leads_to_its_picture(root, answers):
    """But for the few rows of which `UNDRAWN` says why; and the picture stands below a table."""
    text = (root / PAGE).read_text()
    rows = dict(re.findall(r'^\| <a id="([\w-]+)"></a>(.*)$', text, re.M))
    without = {n for n, one in answers.items() if one.found.value is not None}
    for name, picture in ((name, answers[name].claim.picture) for name in list(without)):
        if picture:
            assert f"[picture](#picture-{picture})" in rows[name], name
            assert text.count(f'<a id="picture-{picture}"></a>![') == 1, picture
            without.remove(name)
    assert without == set(UNDRAWN)
    assert all(UNDRAWN.values())


def mentioned(kind):
    """Numbers of all figures or tables that claims are about: "Figures 4 and 11 to 14"."""
    found = set()
    for claim in CLAIMS:
        for part in re.findall(rf"{kind}s? ([\dA-D, and]+)", claim.where):
            found |= {int(number) for number in re.findall(r"\d+", part)}
    return found


def test_every_figure_and_table_has_a_claim():
    assert mentioned("Figure") == set(FIGURES)
    assert mentioned("Table") == set(TABLES)


def test_recipes_exist_and_are_recipes(root):
    for claim in CLAIMS:
        for recipe in filter(None, (claim.recipe, claim.stand_in)):
            assert tomllib.loads((root / recipe).read_text()), recipe
        if claim.stand_in:
            assert "length" in size(root, claim.stand_in)


def test_every_number_has_a_source(root, answers):
    for name, one in answers.items():
        assert one.judgement in JUDGEMENTS
        if one.found.value is not None:
            assert one.found.sources, name
            assert one.found.n > 0, name
        for source in one.found.sources:
            assert (root / source).is_file(), (name, source)


def test_rows_show_what_was_measured(root, answers):
    """Each row of the page has its claim's number, judgement and files, and there are no others."""
    rows = dict(re.findall(r'^\| <a id="([\w-]+)"></a>(.*)$', (root / PAGE).read_text(), re.M))
    assert list(rows) == list(answers)
    for name, row in rows.items():
        one = answers[name]
        assert one.found.text() in row
        assert f"{one.judgement} |" in row
        for source in one.found.sources:
            assert f"]({source})" in row


def test_stand_ins_say_so(root, answers):
    """What no paper-sized model answered says how small the models were."""
    text = (root / PAGE).read_text()
    shown = [*answers.values(), *(one.beside for one in answers.values() if one.beside)]
    assert text.count("*Small: ") == sum(one.small for one in shown) > 0


def test_differences_come_with_a_cause_or_what_was_tried(answers):
    """Of whatever size the model is that differs."""
    without = [n for n, one in answers.items() if one.judgement == DIFFERS and not one.note]
    assert without == []


def test_what_is_not_reached_says_why(answers):
    without = [n for n, one in answers.items() if one.judgement == NOT_REACHED and not one.note]
    assert without == []


QUOTING = (theory, patching, deletions, text)
"""Files of claims whose rows all quote the paper."""


@pytest.mark.parametrize("claim", [claim for part in QUOTING for claim in part.CLAIMS],
                         ids=lambda claim: claim.name)  # fmt: skip
def test_rows_quote_the_paper(claim):
    """Words, a number or a formula of the paper's; bounds of ours belong to the rule."""
    assert re.search(r"“[^”]+”|\d|[/=]", claim.paper)
    assert not re.search(r"[≤≥]|at least|at most", claim.paper)


def test_notes_hold_no_measured_numbers(answers):
    """They would grow old; numbers belong to the row. The paper's own, and exact ones, may stay."""
    allowed = {"98%", "40%", "50%", "100%", "55%", "0.001", "0.000004", "0.95"}
    for one in answers.values():
        notes = one.claim.note + one.claim.note_at_size
        said = set(re.findall(r"\d+(?:\.\d+)?%|\d+\.\d+", notes))
        assert said <= allowed, one.claim.name


def test_links_of_the_page_lead_somewhere(root):
    text = (root / PAGE).read_text()
    for target in set(re.findall(r"\]\(([^)#]+)\)", text)):
        assert (root / target).exists(), target
    anchors = set(re.findall(r'<a id="([\w-]+)">', text))
    named = set(re.findall(r"\]\(#([\w-]+)\)", text))
    assert len(named - anchors) == len(PARTS) + 1  # the rest are headings, one of them a table's


def test_the_page_builds_without_torch(root):
    code = (
        "import sys; from pathlib import Path; from reproduction.page import page; "
        "from reproduction.results import Results; page(Results(Path('.'))); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


def test_an_old_page_or_picture_is_told_of(root, tmp_path):
    for name in ("results", "recipes"):
        (tmp_path / name).symlink_to(root / name)
    shutil.copytree(root / FOLDER, tmp_path / FOLDER)
    command = [sys.executable, "-m", "reproduction", "--root", str(tmp_path), "--check"]

    def refused():
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        return done.returncode == 1 and done.stderr == f"error: {OLD}\n"

    assert refused()
    (tmp_path / PAGE).write_text("older\n")
    assert refused()
    (tmp_path / PAGE).write_text(page(Results(root)))
    assert subprocess.run(command, cwd=root).returncode == 0
    (tmp_path / FOLDER / "prism.png").rename(tmp_path / "elsewhere.png")
    assert refused()
    (tmp_path / "elsewhere.png").rename(tmp_path / FOLDER / "prism.png")
    marks = json.loads((tmp_path / FOLDER / "pictures.json").read_text())
    (tmp_path / FOLDER / "pictures.json").write_text(json.dumps(marks | {"prism": "older"}))
    assert refused()
