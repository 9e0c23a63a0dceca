"""What the shell completes."""

import os
import subprocess
import sys

import pytest

from statetrace.cli import completion


def test_models_runs_and_lenses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/mine", "runs/other", "elsewhere/deep"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "run.json").write_text("{}")
    assert completion.complete_model("runs/m") == ["runs/mine"]
    assert completion.complete_model("elsewhere/") == ["elsewhere/deep"]
    assert "zoo:s3-associative" in completion.complete_model("zoo:")
    assert set(completion.complete_model("")) >= {"runs/mine", "runs/other", "zoo:s3-rotary"}
    assert completion.complete_run("runs/o") == ["runs/other"]
    assert completion.complete_lens("pa") == ["patching"]
    assert completion.complete_lenses("depth,pr") == ["depth,probing"]


def test_the_shell_is_answered_without_torch():
    code = (
        "import sys; from statetrace.cli import app, completion; completion.complete_model('');"
        "completion.complete_lens(''); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("typed", "replies"),
    [
        ("verdict zoo", {"zoo:s3-parallel", "zoo:s3-parity-associative"}),
        ("verdict zoo : s3-pa", {"s3-parallel", "s3-parity-associative"}),
        ("verdict zoo :", {"s3-parallel", "s3-parity-associative"}),
        ("explore zoo : s3-rotary z", {"zoo:s3-parallel", "zoo:s3-parity-associative"}),
        ("explore zoo : s3-rotary zoo : s3-par", {"s3-parallel", "s3-parity-associative"}),
    ],
)
def test_bash_splits_the_names_of_bundled_models(tmp_path, typed, replies):
    """The environment in which the function that bash calls starts `statetrace`."""
    words = ["statetrace", *typed.split()]
    environment = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    code = "import sys; sys.argv = ['statetrace']; from statetrace.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | environment | {"_STATETRACE_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
    )
    completed = {line for line in done.stdout.split() if "s3-pa" in line}
    assert completed == replies
