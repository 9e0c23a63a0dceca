"""What the shell completes."""

import subprocess
import sys

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
