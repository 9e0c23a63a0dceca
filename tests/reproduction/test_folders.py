"""results/ through the package's own doors: loading, verdicts, tables and reports of run and study
folders, with weights and without."""

import json
import shutil

import pytest
from typer.testing import CliRunner

import statetrace as st
from statetrace.cli import app

WEIGHTLESS = "gpt2-parity-associative"  # analyzed at length 20 of 100
COMPLETE = "zoo/s3-rotary"


@pytest.fixture
def copied(tmp_path, request):
    """A function that copies a folder of results/ to where commands may write."""

    def copy(name):
        return shutil.copytree(request.config.rootpath / "results" / name, tmp_path / name)

    return copy


@pytest.mark.parametrize("name", [WEIGHTLESS, "gpt2-associative"])
def test_without_weights_an_older_verdict_is_kept(copied, name):
    folder = copied(name)
    recorded = json.loads((folder / "verdict.json").read_text())
    judged = st.load(folder).verdict()
    assert judged.mechanism == recorded["mechanism"]
    assert judged.confidence == recorded["confidence"]
    (folder / "verdict.json").unlink()
    with pytest.raises(st.StatetraceError, match="no weights"):
        st.load(folder).verdict()


def test_with_weights_the_verdict_is_computed_again(copied):
    folder = copied(COMPLETE)
    recorded = json.loads((folder / "verdict.json").read_text())
    judged = st.load(folder).verdict()
    assert max(judged.probabilities, key=judged.probabilities.get) == recorded["mechanism"]
    assert [row["link"] for row in judged.links] == ["parity", "state"]


def test_kept_results_without_weights(copied):
    model = st.load(copied(WEIGHTLESS))
    results = model.analyze()
    assert results["patching"].summary["length"] == results.length == 20
    assert results["generalization"].summary["longest"] == 200
    with pytest.raises(st.StatetraceError, match=r"patching: cannot be computed .* no weights"):
        model.analyze("patching", pairs=5)
    with pytest.raises(st.StatetraceError, match="no weights"):
        model.look("213,132")


def test_a_bundled_model_has_its_weights(copied):
    model = st.load(copied(COMPLETE))
    patching = model.analyze("patching", pairs=5, at_length=4)["patching"]
    assert patching.summary["pairs_asked"] == 5


@pytest.mark.parametrize("name", [WEIGHTLESS, COMPLETE, "tiny-text/cells/scratch_seed-0"])
def test_commands(copied, name):
    folder = copied(name)
    for command in ("show", "verdict", "report"):
        done = CliRunner().invoke(app, [command, str(folder)])
        assert done.exit_code == 0, (command, done.output)
    assert (folder / "report.html").stat().st_size > 1_000_000


@pytest.mark.parametrize("name", ["tiny-split", "topics-gpt2", "small-s5"])
def test_studies_have_reports(copied, name):
    folder = copied(name)
    path = st.report(folder, folder / "report.html")
    assert name in path.read_text()
