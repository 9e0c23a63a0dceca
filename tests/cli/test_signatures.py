"""`statetrace signatures` as people type it: a picture, its numbers, and a summary that fits."""

import os

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.cli.signatures import _listed, _readable
from statetrace.groups import group
from statetrace.mechanisms.algorithms import ALGORITHMS, algorithm
from statetrace.mechanisms.dependencies import dependencies
from statetrace.mechanisms.signatures import signature


def run(*words: object):
    return CliRunner().invoke(
        app, ["signatures", *map(str, words)], env=os.environ | {"COLUMNS": "80"}
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_fits_80_columns():
    shown = run("--help")
    assert shown.exit_code == 0
    assert "Annotated" not in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80


def test_the_paper_figure_and_its_numbers(here):
    done = run("--length", 16)
    assert done.exit_code == 0, done.output
    assert {file.name for file in here.iterdir()} == {
        "signatures-S3-16.png",
        "signatures-S3-16.parquet",
    }
    rows = pq.read_table("signatures-S3-16.parquet").to_pylist()
    for name in ALGORITHMS:
        expected = signature(name, "S3", 16).patching["prefix", "opposite"]
        found = np.full(expected.shape, np.nan)
        for row in rows:
            key = tuple(row[k] for k in ("algorithm", "measure", "where", "split"))
            if key == (name, "nld", "prefix", "opposite"):
                found[row["layer"], row["position"]] = row["value"]
        assert np.array_equal(found, expected)
        arrows = {
            (row["layer"], row["source"], row["position"])
            for row in rows
            if (row["algorithm"], row["measure"]) == (name, "arrow")
        }
        assert arrows == set(dependencies(algorithm(name, group("S3")), 8).arrows)
    picture = np.asarray(Image.open("signatures-S3-16.png").convert("RGB")).astype(int)
    for colour in ((0xFD, 0xE7, 0x37), (0x00, 0x22, 0x4D), (0x00, 0x72, 0xB2), (0x8A, 0x6D, 0x00)):
        assert (np.abs(picture - colour).sum(-1) < 30).sum() > 500  # maps, a curve, nodes


def test_the_summary_says_what_to_look_for(here):
    said = run("--length", 16).stdout
    assert max(map(len, said.splitlines())) <= 80
    part = said[said.index("\nparity-associative: 5 layers") :]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in part.splitlines()]
    assert [row for row in rows if row] == [
        ["to restore, same parity", "1 x2, 2, 4, 8, 16"],
        ["to restore, opposite parity", "1, 16 x5"],
        ["readable: state", "from layer 5 (33% before)"],
        ["readable: parity, if linear", "from layer 1 (50% before)"],
        ["readable: parity, if not linear", "from layer 1 (50% before)"],
    ]


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_other_pictures_and_reasons(here, suffix):
    """A5 has neither parity nor a parallel algorithm: the picture says so in their rows."""
    done = run("--group", "a5", "--length", 5, "--pairs", 20, "--out", f"five.{suffix}")
    assert done.exit_code == 0, done.output
    assert " ".join(done.stdout.split()).count("perfect subgroup of order 60") == 1
    assert "no parity" in done.stdout
    drawn = (here / f"five.{suffix}").read_bytes()
    assert drawn.startswith(b"%PDF" if suffix == "pdf" else b"<?xml")
    measured = set(pq.read_table("five.parquet")["algorithm"].to_pylist())
    assert measured == {"sequential", "associative"}


def test_another_quotient(here):
    done = run("--group", "A4", "--length", 4, "--quotient", "Z3")
    assert done.exit_code == 0, done.output
    assert "Z3-associative: 3 layers" in done.stdout


def test_an_algorithm_that_the_verdict_does_not_rank(here):
    done = run("--length", 8, "--algorithm", "strided", "--algorithm", "chunked", "--stride", 2)
    assert done.exit_code == 0, done.output
    assert "strided: 4 layers" in done.stdout
    table = pq.read_table("signatures-S3-8.parquet")
    assert set(table["algorithm"].to_pylist()) == {"strided", "chunked"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--group", "Q7"], "Q7"),
        (["--group", "Z1"], "Z1"),
        (["--length", "1"], "length 1"),
        (["--length", "-3"], "length -3"),
        (["--length", "9999"], "length 9999"),
        (["--pairs", "0"], "pairs 0"),
        (["--seed", "-1"], "-1"),
        (["--quotient", "colour"], "colour"),
        (["--algorithm", "strided", "--stride", "3"], "stride 3"),
        (["--algorithm", "asociative"], "did you mean 'associative'"),
        (["--out", "picture.bmp"], "picture.bmp"),
        (["--out", "picture"], "picture"),
        (["--out", "nowhere/picture.png"], "nowhere"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_sentence_that_quotes_it(here, words, complaint):
    done = run(*words)
    assert done.exit_code != 0
    assert complaint in str(done.exception)
    assert "\n" not in str(done.exception)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([1, 2, 4], "1, 2, 4"),
        ([1, 8, 8, 8], "1, 8 x3"),
        ([None, None], "never x2"),
        (list(range(1, 33)), "1, 2, 3, 4, ..., 31, 32"),
    ],
)
def test_numbers_layer_by_layer(numbers, words):
    assert _listed(numbers) == words


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [
        ([0.2, 0.5, 1, 1], "from layer 2 (50% before)"),
        ([1, 1], "from layer 0"),
        ([0.5, 0.5], "nowhere (50%)"),
    ],
)
def test_where_it_is_readable(accuracy, words):
    assert _readable(accuracy) == words
