"""`statetrace explore` as people start it, and end it."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from statetrace.cli import app
from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.lenses.compiled import save_compiled
from statetrace.models.compiled import compile_model
from tests.inspection.cases import ZOO


def refused(*arguments):
    """The sentence it ends with."""
    done = CliRunner().invoke(app, ["explore", *map(str, arguments), "--no-open"])
    assert done.exit_code == 1
    assert isinstance(done.exception, StatetraceError), done.exception
    return str(done.exception)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    spec = CompileSpec(group="S4", algorithm="associative", length=4)
    folder = tmp_path_factory.mktemp("compiled") / "aa"
    save_compiled(compile_model(spec), spec, folder)
    return folder


def test_it_serves_a_compiled_model_until_it_is_interrupted(compiled, tmp_path):
    command = [sys.executable, "-m", "statetrace", "explore", str(compiled), "--no-open"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as running:
        where = running.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", where), where
        with urllib.request.urlopen(where, timeout=300) as answer:
            assert b"statetrace explorer" in answer.read()
        with urllib.request.urlopen(where + "api/about", timeout=300) as answer:
            assert b'"group":"S4"' in answer.read()
        running.send_signal(signal.SIGINT)
        rest, output = running.communicate(timeout=300)
    assert running.returncode == 0
    assert rest == ""
    assert output.strip().endswith("stopped")
    assert list(tmp_path.iterdir()) == [], "it wrote something"


def test_tokens_differ_from_start_to_start(monkeypatch):
    import statetrace.explorer as library
    import statetrace.explorer.server as server
    from tests.inspection.cases import zoo

    monkeypatch.setattr(library, "open_model", lambda *_, **__: zoo())
    monkeypatch.setattr(server, "serve", lambda app, bound: bound.close())
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    seen = [CliRunner().invoke(app, ["explore", ZOO]).stdout.strip() for _ in range(2)]
    tokens = {re.fullmatch(r"http://127\.0\.0\.1:\d+/([\w-]+)/", where)[1] for where in seen}
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 20
    assert opened == seen, "the browser is sent there"


def test_bad_input_is_one_sentence(compiled, tmp_path):
    assert refused("zoo:nothing").startswith("the zoo has no model 'nothing'")
    assert refused(tmp_path).startswith(f"'{tmp_path}' is neither a run folder")
    assert refused(ZOO, "--port", 70000) == "--port 70000 is not a port; use 0 to 65535"
    assert "'no.such.host.invalid'" in refused(ZOO, "--host", "no.such.host.invalid")
    assert "step 7" in refused(ZOO, "--checkpoint", 7)
    assert "the first tracks S3 (notation 'moves'), the second S4" in refused(ZOO, compiled)
