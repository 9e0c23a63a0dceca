"""`statetrace verdict`: from folders to a sentence, JSON, and clear refusals."""

import json

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.compile_spec import CompileSpec
from statetrace.lenses.compiled import save_compiled
from statetrace.models.compiled import compile_model


def said(*words):
    return CliRunner().invoke(app, ["verdict", *map(str, words)])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    spec = CompileSpec(algorithm="parity-associative", length=6)
    folder = tmp_path_factory.mktemp("compiled") / "paa"
    save_compiled(compile_model(spec), spec, folder)
    return folder


def test_mechanism_confidence_and_a_line_per_lens(compiled):
    done = said(compiled)
    assert done.exit_code == 0, done.exception
    last = done.output.strip().splitlines()[-1]
    assert last.startswith("parity-associative, confidence ")
    for lens in ("patching", "depth", "probing", "generalization", "attention"):
        assert any(line.startswith(lens) for line in done.output.splitlines()), lens


def test_json_and_the_file(compiled):
    done = said(compiled, "--json")
    found = json.loads(done.stdout)
    assert found["mechanism"] == "parity-associative"
    assert 0.5 < found["confidence"] <= 1
    assert set(found["evidence"]) >= {"patching", "probing", "generalization"}
    assert json.loads((compiled / "verdict.json").read_text()) == found


def test_results_that_are_there_are_used(compiled):
    """After `analyze`, a verdict gives the same answer without looking at the model again."""
    runner = CliRunner()
    names = "generalization,probing,patching,depth,attention"
    done = runner.invoke(app, ["analyze", str(compiled), "--only", names])
    assert done.exit_code == 0, done.exception
    weights = compiled / "model.safetensors"
    hidden = weights.rename(compiled / "hidden")
    try:
        done = said(compiled)
    finally:
        hidden.rename(weights)
    assert done.exit_code == 0, done.exception
    assert "parity-associative, confidence" in done.output


def test_fast(compiled):
    done = said(compiled, "--fast", "--json")
    assert json.loads(done.stdout)["mechanism"] == "parity-associative"


def test_bad_words(tmp_path):
    assert f"'{tmp_path}' holds no run" in str(said(tmp_path).exception)
    assert "the zoo has no model 'nobody'" in str(said("zoo:nobody").exception)
