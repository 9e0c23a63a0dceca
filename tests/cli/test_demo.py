"""`statetrace demo` at toy size: every step, the verdict last, and nothing twice."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.config import bundled
from tests.training.conftest import toy


@pytest.fixture
def toy_demo(tmp_path, monkeypatch):
    (tmp_path / "demo.toml").write_text(toy(steps=8, length=5, layers=1).to_toml())
    monkeypatch.setattr(bundled, "RECIPES", tmp_path)


def test_the_demo_ends_with_the_verdict_and_continues(toy_demo, tmp_path):
    run = tmp_path / "run"
    first = CliRunner().invoke(app, ["demo", "--out", str(run)])
    assert first.exit_code == 0, first.output
    mechanism = json.loads((run / "verdict.json").read_text())["mechanism"]
    assert first.stdout.splitlines()[-1].startswith(mechanism)
    assert mechanism in (run / "report.html").read_text()
    files = {file: file.stat().st_mtime_ns for file in run.glob("checkpoints/*/*")}
    files |= {file: file.stat().st_mtime_ns for file in run.glob("lenses/*")}
    again = CliRunner().invoke(app, ["demo", "--out", str(run)])
    assert again.exit_code == 0, again.output
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    assert {file: file.stat().st_mtime_ns for file in files} == files
