"""`statetrace doctor`: it finds what is missing and what computes wrongly."""

import json

import pytest
from typer.testing import CliRunner

from statetrace.api.model import TrackedModel
from statetrace.cli import app, doctor


def run(*words):
    return CliRunner().invoke(app, ["doctor", *words], env={"COLUMNS": "300"})


def test_this_installation_is_sound():
    done = run("--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert report["ok"]
    checks = {check["name"]: check for check in report["checks"]}
    assert {"statetrace", "Python", "device", "self-test"} <= checks.keys()
    assert checks["self-test"]["ok"]
    assert f"is judged {doctor.ALGORITHM}" in checks["self-test"]["what"]


@pytest.fixture
def without_self_test(monkeypatch):
    monkeypatch.setattr(doctor, "self_test", lambda: doctor.Check("self-test", True, "skipped"))


@pytest.mark.usefixtures("without_self_test")
def test_missing_packages_come_with_a_command(monkeypatch):
    needed = ["torch>=999", "no-such-package>=1", 'ray>=999; extra == "ray"']
    monkeypatch.setattr(doctor, "requires", lambda _: needed)
    done = run()
    assert done.exit_code == 1
    assert "but >=999 is needed; pip install 'torch>=999'" in done.output
    assert "is not installed; pip install 'no-such-package>=1'" in done.output
    assert "pip install 'statetrace[ray]'" in done.output
    assert str(done.exception).startswith("torch, no-such-package: ")  # an extra is a choice


def test_a_machine_that_computes_wrongly_is_found(monkeypatch):
    """Lenses that see another model's numbers, and a library that fails."""
    wrong = type("Verdict", (), {"mechanism": "sequential"})()
    monkeypatch.setattr(TrackedModel, "analyze", lambda *_, **__: None)
    monkeypatch.setattr(TrackedModel, "verdict", lambda _: wrong)
    assert doctor.self_test().ok is False
    monkeypatch.setattr(TrackedModel, "verdict", lambda _: 1 / 0)
    check = doctor.self_test()
    assert check.ok is False
    assert check.what.startswith("ZeroDivisionError: division by zero")
