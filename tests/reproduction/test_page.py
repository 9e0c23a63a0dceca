"""The page: up to date, short, linked, and the same numbers as claims.csv and models.parquet."""

import csv
import io
import json
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from reproduction.__main__ import stale
from reproduction.claim import answer, load_claims
from reproduction.figures import PICTURES, charts
from reproduction.models_table import COLUMNS
from reproduction.page import claims_csv, page, slug
from statetrace.errors import StatetraceError


@pytest.fixture(scope="module")
def answers(selection):
    return [answer(claim, selection) for claim in load_claims()]


@pytest.fixture(scope="module")
def text(request):
    return (request.config.rootpath / "REPRODUCTION.md").read_text()


def test_nothing_is_stale(request):
    assert stale(request.config.rootpath) == []


def test_the_page_has_at_most_thirty_kilobytes(text):
    assert len(text.encode()) <= 30_000


def test_links_lead_somewhere(text, request):
    anchors = {slug(title) for title in re.findall(r"^#+ (.+)$", text, re.M)}
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 60
    for target in targets:
        if target.startswith("#"):
            assert target[1:] in anchors
        else:
            assert (request.config.rootpath / target).exists(), target


def test_every_picture_is_shown(text, selection):
    assert set(charts(selection)) == set(PICTURES)
    assert set(re.findall(r"docs/reproduction/([\w-]+)\.png", text)) == set(PICTURES)


def test_claims_csv_has_every_number(answers):
    rows = list(csv.DictReader(io.StringIO(claims_csv(answers))))
    measured = sum(len(o.numbers) for a in answers for o in a.outcomes)
    assert sum(row["value"] != "" for row in rows) == measured > 130


def test_an_unknown_section_is_refused(answers, selection):
    import dataclasses

    claim = dataclasses.replace(answers[0].claim, section="nowhere")
    with pytest.raises(StatetraceError, match="nowhere"):
        page([dataclasses.replace(answers[0], claim=claim)], selection)


def test_settings_are_those_of_the_runs(text, tables):
    row = next(line for line in text.splitlines() if line.startswith("| steps of 128"))
    for file in sorted((tables.folder / "scratch" / "cells").glob("*/run.json")):
        recipe = json.loads(file.read_text())["recipe"]
        training, task = recipe["training"], recipe["task"]
        assert f"{training['steps']:,}" in row
        assert (training["batch"], training["learning_rate"], task["length"]) == (128, 5e-5, 100)
        assert (training["schedule"], training["warmup"], training["clip"]) == ("linear", 0, 1.0)
        assert task["start_marker"]


def test_models_parquet_has_every_model_once_but_for_duplicates(tables):
    table = pq.read_table(tables.folder / "models.parquet")
    assert table.column_names == list(COLUMNS)
    rows = table.to_pylist()
    single = [row["run_key"] for row in rows if not row["duplicate"]]
    assert len(single) == len(set(single))
    planned = sum(len(tables.study_rows(study)) for study in tables.studies())
    assert len([r for r in rows if r["study"] not in ("single", "calibration")]) == planned
    words = (tables.folder / "README.md").read_text()
    assert [name for name in COLUMNS if f"`{name}`" not in words] == []


def test_every_number_has_its_run(tables):
    for study in tables.studies():
        for row in tables.study_rows(study):
            if row["state"] == "finished":
                run = tables.json(f"{study}/cells/{row['cell']}/run.json")
                task, training = run["recipe"]["task"], run["recipe"]["training"]
                assert (task["group"], training["seed"]) == (row["group"], row["seed"])
                assert run.get("results_commit") or run["versions"]["commit"]


def test_the_command_reports_a_stale_page(tmp_path):
    (tmp_path / "results").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "reproduction", "--root", str(tmp_path), "--check"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert "REPRODUCTION.md" in done.stderr
    assert "Traceback" not in done.stderr
