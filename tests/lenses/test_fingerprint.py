"""Fingerprints of checkpoints: the same for the same files, another for other weights."""

import shutil
from pathlib import Path

import pytest

from statetrace.config.external import ExternalCheckpoint
from statetrace.lenses import fingerprint as weights
from statetrace.lenses.fingerprint import differ, fingerprint, weights_of
from statetrace.lenses.loading import load_external
from statetrace.runs import Run
from statetrace.zoo import adopt, checkpoint


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(bytes(range(256)) * 40)
    return made


def change(file: Path, at: int, to: bytes) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:at] + to + content[at + len(to) :])


def test_it_is_about_the_files_and_not_their_place(folder, tmp_path):
    there = shutil.copytree(folder, tmp_path / "there")
    assert fingerprint(there) == fingerprint(folder) is not None
    (there / "README.md").write_text("a model")
    assert fingerprint(there) == fingerprint(folder)


@pytest.mark.parametrize("at", [0, 5000, 256 * 40 - 1])
def test_one_byte_makes_another(folder, at):
    before = fingerprint(folder)
    change(folder / "model.safetensors", at, b"\xaa")
    assert fingerprint(folder) != before


def test_the_configuration_counts(folder):
    before = fingerprint(folder)
    (folder / "config.json").write_text('{"n_head": 2}')
    assert fingerprint(folder) != before


@pytest.mark.parametrize("at", [0, 3000, 256 * 40 - 200])
def test_of_large_files_pieces_are_read(folder, monkeypatch, at):
    monkeypatch.setattr(weights, "WHOLE", 1000)
    monkeypatch.setattr(weights, "PIECES", 80)
    monkeypatch.setattr(weights, "PIECE", 16)
    before = fingerprint(folder)
    assert before == fingerprint(folder)
    change(folder / "model.safetensors", at, b"\xaa" * 200)
    assert fingerprint(folder) != before


def test_nothing_to_tell(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    assert fingerprint(folder) is None
    assert fingerprint(tmp_path / "nowhere") is None
    differences = {
        pair: differ(*pair) for pair in ((None, "a"), ("a", None), ("a", "a"), ("a", "b"))
    }
    assert [pair for pair, apart in differences.items() if apart] == [("a", "b")]


def test_a_model_from_elsewhere_says_which_weights_it_has(tmp_path):
    run = adopt("s3-associative", tmp_path / "run")
    folder = checkpoint("s3-associative")
    subject = load_external(folder, ExternalCheckpoint("S3", 16), "cpu")
    assert subject.about()["weights"] == fingerprint(folder) == weights_of(run)
    trained = Run(tmp_path / "trained")
    trained.write_info({"recipe": {}})
    assert weights_of(trained) is None  # it has no checkpoint
