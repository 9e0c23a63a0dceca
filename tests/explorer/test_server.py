"""The server: who may ask, what it answers, and that it answers what the library says."""

import base64
import contextlib
import dataclasses
import fnmatch
import json
import re
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest

from statetrace.analysis import Analyzer
from statetrace.config.compile_spec import CompileSpec
from statetrace.errors import StatetraceError
from statetrace.explorer.server import HEADERS, MOST_BYTES, Trust, check_comparable, listen
from statetrace.groups import group
from statetrace.inspection import Patch, look, make_session
from statetrace.lenses.compiled import task_of
from statetrace.lenses.loading import LoadedModel
from statetrace.models.compiled import compile_model
from tests.explorer.serving import TOKEN, serving
from tests.inspection.cases import ACTIONS, SOURCE, ZOO, labels, random_model, zoo

PATHS = ["/", "/assets/main.js", "/api/about", "/api/look", "/api/verdict"]
HERE, THERE = ACTIONS.split(","), SOURCE.split(",")


@pytest.fixture(scope="module")
def server():
    with serving(zoo()) as running:
        yield running


# Who may ask


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "%00", "é".encode().hex()])
def test_without_the_token_nothing_is_told(server, path, token):
    body = {"actions": HERE} if path == "/api/look" else None
    status, _, answer = server.ask(path, body, token=token)
    assert status == 403
    assert answer["error"].startswith("the address lacks the token")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.0.7:80", ""])
def test_another_name_is_refused(server, host):
    status, _, answer = server.ask("/api/about", Host=host)
    assert status == 403
    assert f"'{host}'" in answer["error"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_another_page_is_refused(server, origin):
    status, _, answer = server.ask("/api/look", {"actions": HERE}, Origin=origin)
    assert status == 403
    assert origin in answer["error"]
    own = f"http://127.0.0.1:{server.port}"
    assert server.ask("/api/look", {"actions": HERE}, Origin=own)[0] == 200


@pytest.mark.parametrize(
    ("bound", "header", "allowed"),
    [
        ("127.0.0.1", "localhost:8000", True),
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "10.0.0.3:8000", False),
        ("127.0.0.1", "lab.example", False),
        ("0.0.0.0", "10.0.0.3:8000", True),
        ("0.0.0.0", "[fe80::1]:8000", True),
        ("0.0.0.0", "lab.example", False),
        ("lab.example", "LAB.example:80", True),
        ("lab.example", "evil.example:80", False),
    ],
)
def test_names_that_are_trusted(bound, header, allowed):
    assert Trust.for_host(bound).allows(header) is allowed


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/assets/nothing.js"])
def test_every_answer_has_the_safe_headers(server, path):
    _, headers, _ = server.ask(path)
    sent = {name.lower(): value for name, value in headers.items()}
    for name, value in HEADERS.items():
        assert sent[name] == value
    assert not any(name.startswith("access-control") for name in sent)
    assert "server" not in sent


OUTSIDE = [
    "/assets/../server.py",
    "/assets/..%2fserver.py",
    "/assets/%2e%2e/server.py",
    "/assets/..%5cserver.py",
    "/assets/%2fetc%2fpasswd",
    "/assets//etc/passwd",
    "/assets/../../zoo/catalogue.json",
    "/assets/.",
    "/assets/",
    "/assets/main.js%00",
    "/assets/__init__.py",
    "/run.json",
    "/../" + TOKEN + "/api/about/../../..",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_but_the_page_can_be_read(server, path):
    status, _, answer = server.ask(path)
    assert status == 404
    assert answer == {"error": "there is nothing at this address"}


# What it answers


def test_the_page_and_all_it_is_made_of(server):
    status, headers, page = server.ask("/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"//" not in page.replace(b"<!doctype html>", b""), "it asks another host"
    for name in ("main.js", "score.js", "page.css", "explorer.css", "icon.svg"):
        status, headers, answer = server.ask(f"/assets/{name}")
        assert status == 200
        assert len(answer) > 100
    assert server.ask("/api/look")[0] == 405


def test_numbers_are_those_of_the_library(server):
    asked = {"patches": [[4, 0, 5], [2, 1, 1]], "without": [[5, 1]], "instead": "zero"}
    answer = server.look(actions=HERE, source=THERE, at=6, head=[4, 2], maps=True, **asked)
    base = look(zoo(), HERE)
    changed = look(
        zoo(),
        HERE,
        source=THERE,
        patches=[Patch(4, 0, 5), Patch(2, 1, 1)],
        without=[(5, 1)],
        instead="zero",
    )
    parity = zoo().task.group.parity
    for name, view in (("base", base), ("changed", changed)):
        described = answer[name]
        np.testing.assert_allclose(described["distribution"], view.answers[6], atol=1e-6)
        np.testing.assert_allclose(described["attention"], view.attention[3, 2], atol=1e-6)
        small = np.frombuffer(base64.b64decode(described["maps"]), np.uint8)
        np.testing.assert_allclose(small / 255, view.attention.ravel(), atol=0.002)
        for reader, arrays in (("probe", view.probes), ("unembedding", None)):
            for target in ("state", "parity"):
                cells = described[reader][target]
                if arrays is not None:
                    given = arrays[target]
                elif target == "state":
                    given = view.unembedding
                else:
                    odd = view.unembedding[..., parity == 1].sum(-1)
                    given = np.stack([1 - odd, odd], -1)
                assert cells["predicted"] == given.argmax(-1).tolist()
                np.testing.assert_allclose(cells["probability"], given.max(-1), atol=1e-5)
        assert described["answers"]["state"]["predicted"] == view.answers.argmax(-1).tolist()
    assert answer["states"] == base.states.tolist()
    assert answer["source_states"] == look(zoo(), THERE).states.tolist()
    assert answer["base"]["distribution"] != answer["changed"]["distribution"]
    assert server.look(actions=HERE)["changed"] is None


ASKED = {
    "plain": {},
    "long": {"actions": HERE * 6, "source": HERE * 6, "patches": [[2, 0, 40]], "head": [3, 3]},
    "patched": {"source": THERE, "patches": [[4, 0, 5], [1, 7, 7]], "at": 3},
    "ablated": {"without": [[4, 0], [6, 3]], "instead": "zero", "head": [6, 1]},
    "all of it": {"source": THERE, "patches": [[3, 2, 4]], "without": [[2, 2]], "head": [1, 0]},
}


@pytest.mark.parametrize("case", sorted(ASKED))
def test_copied_python_runs_and_gives_the_same_numbers(server, case, capsys):
    answer = server.look(**({"actions": HERE} | ASKED[case]))
    assert max(map(len, answer["python"].splitlines())) <= 88
    names = {}
    exec(compile(answer["python"], "copied", "exec"), names)
    shown = answer["changed"] or answer["base"]
    at = answer["at"]
    np.testing.assert_allclose(names["view"].answers[at], shown["distribution"], atol=1e-5)
    for target, cells in shown["probe"].items():
        assert names["view"].probes[target].argmax(-1).tolist() == cells["predicted"]
    if "head" in ASKED[case]:
        layer, head = ASKED[case]["head"]
        np.testing.assert_allclose(
            names["view"].attention[layer - 1, head], shown["attention"], atol=1e-5
        )
    best = zoo().task.group.labels[int(np.argmax(shown["distribution"]))]
    assert capsys.readouterr().out.startswith(f"{{'{best}': ")


def test_snippets_of_earlier_versions_still_run():
    names = {}
    code = f"""from statetrace.explorer import Patch, look, open_model
model = open_model("{ZOO}")
view = look(model, "{ACTIONS}", source="{SOURCE}", patches=[Patch(4, 0, 5)], without=[(6, 0)])
"""
    exec(compile(code, "copied", "exec"), names)
    view = look(zoo(), ACTIONS, source=SOURCE, patches=[(4, 0, 5)], without=[(6, 0)])
    np.testing.assert_allclose(names["view"].answers, view.answers, atol=1e-6)


def test_the_documented_example_says_what_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "explorer.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    names = {}
    exec(compile(code, "documented", "exec"), names)
    said = re.search(r"view\.answer\(3\)  # \{'(\d+)': 0\.(\d+)\.\.\.", code)
    best, share = next(iter(names["view"].answer(3).items()))
    assert best == said[1]
    assert str(share).startswith(f"0.{said[2]}")


BAD = {
    "no JSON": (b"actions", "'actions' is not valid"),
    "no object": ([1], "not a JSON object"),
    "deep": (b"[" * 50_000, "nested too deeply"),
    "unknown field": ({"actions": HERE, "path": "/etc/passwd"}, "unknown field 'path'"),
    "lines": (b'{"actions"\n\n\x1b[31m', "not valid"),
    "label": ({"actions": ["132", "<b>"]}, "no element '<b>'"),
    "number as label": ({"actions": [1]}, r"actions cannot be '\[1\]'"),
    "empty": ({"actions": []}, "0 actions"),
    "too long": ({"actions": ["132"] * 49}, "49 actions; the model takes 1 to 48"),
    "model": ({"actions": HERE, "model": 1}, "no model 1"),
    "negative model": ({"actions": HERE, "model": -1}, "no model -1"),
    "layer": ({"actions": HERE, "source": THERE, "patches": [[99, 0, 0]]}, "no layer 99"),
    "shape": ({"actions": HERE, "patches": [[1, 2]]}, r"patches = \[\[1, 2\]\] is not"),
    "truth": ({"actions": HERE, "patches": [[True, 0, 0]]}, r"patches = \[\[True, 0, 0\]\] is not"),
    "infinite": (b'{"actions": ["132"], "at": 1e999}', "at cannot be 'Infinity'"),
    "huge": ({"actions": HERE, "at": 10**30}, "at cannot be '1000000"),
    "at": ({"actions": HERE, "at": 8}, "no action 8"),
    "head": ({"actions": HERE, "head": [7, 0]}, "no head 7.0"),
    "heads": ({"actions": HERE, "without": [[1, 0]] * 600}, "600 entries"),
    "instead": ({"actions": HERE, "instead": 3}, "instead cannot be '3'"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_requests_get_one_sentence(server, case):
    body, message = BAD[case]
    status, _, answer = server.ask("/api/look", body)
    assert status == 400
    assert re.search(message, answer["error"]), answer["error"]
    assert answer["error"].isprintable()
    assert len(answer["error"]) < 300


def test_another_method_is_refused_with_those_allowed(server):
    status, headers, answer = server.ask("/api/about", {})
    assert (status, answer) == (405, {"error": "method not allowed"})
    allowed = {name.lower(): value for name, value in headers.items()}["allow"]
    assert set(allowed.split(", ")) == {"GET", "HEAD"}


def test_a_failure_is_one_sentence_too(server, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("statetrace.explorer.requests.view_of", fails)
    status, headers, answer = server.ask("/api/look", {"actions": HERE})
    assert status == 500
    assert answer == {"error": "the explorer failed (RuntimeError)"}
    sent = {name.lower(): value for name, value in headers.items()}
    assert {name: sent[name] for name in HEADERS} == HEADERS


def test_a_large_body_is_not_read(server):
    status, _, answer = server.ask("/api/look", b" " * (MOST_BYTES + 1))
    assert status == 413
    assert str(MOST_BYTES) in answer["error"]
    assert server.ask("/api/look", b" " * MOST_BYTES)[0] == 400


def test_two_users_get_what_each_would_get_alone(server):
    asked = [
        {"actions": HERE, "source": THERE, "patches": [[4, 0, 6]]},
        {"actions": THERE, "without": [[4, head] for head in range(4)]},
    ]
    alone = [server.look(**each) for each in asked]
    for each in alone:
        each.pop("ms")
    mixed = []

    def user(number):
        for _ in range(12):
            answer = server.look(**asked[number])
            answer.pop("ms")
            if answer != alone[number]:
                mixed.append(number)

    threads = [threading.Thread(target=user, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert alone[0]["changed"]["distribution"] != alone[1]["changed"]["distribution"]


# Other models


@pytest.mark.parametrize("kind", ["recurrent", "sentences", "many", "clock", "too many"])
def test_every_kind_of_model_is_described_and_answers(kind):
    model = random_model(kind)
    with serving(model) as server:
        about = server.ask("/api/about")[2]["models"][0]
        answer = server.look(actions=about["start"]["actions"], head=[1, 0], maps=True)
    assert len(about["start"]["actions"]) == len(about["start"]["source"]) == 8
    assert about["start"]["actions"][1:] == about["start"]["source"][1:]
    assert about["start"]["actions"] != about["start"]["source"]
    assert len(answer["base"]["distribution"]) == model.task.group.order
    recurrent = kind == "recurrent"
    assert ("no attention" in (about["no_attention"] or "")) is recurrent
    assert (answer["base"]["attention"] is None) is recurrent
    assert (about["moves"] is None) is (kind == "clock")
    assert ("Z60" in (about["no_moves"] or "")) is (kind == "clock")
    assert ("state" in answer["base"]["probe"]) is (kind != "too many")
    if kind == "sentences":
        assert about["sentences"][about["labels"].index("132")] == "Swap positions 2 and 3."


def test_the_verdict_is_that_of_the_library():
    """On an untrained model, whose verdict takes the least time, and on one that is misread."""
    untrained, spec = random_model("gpt2"), CompileSpec(algorithm="associative", length=6)
    task = dataclasses.replace(task_of(spec), group=group("S3", "receives"))
    misread = make_session(LoadedModel(compile_model(spec), task), "misread")
    for session in (untrained, misread):
        with serving(session) as server:
            status, _, verdict = server.ask("/api/verdict", {"model": 0})
            assert server.ask("/api/verdict", {"model": 1})[0] == 400
        judged = Analyzer(LoadedModel(session.model, session.task)).verdict()
        assert (status, verdict) == (200, json.loads(json.dumps(judged.to_dict())))
    assert "--notation moves" in verdict["hint"]


def test_two_models_answer_side_by_side():
    first, second = zoo(), random_model("rotary")
    with serving(first, second) as server:
        both = [server.look(actions=HERE, model=i) for i in (0, 1)]
    for answer, model in zip(both, (first, second), strict=True):
        expected = look(model, HERE).answers[-1]
        np.testing.assert_allclose(answer["base"]["distribution"], expected, atol=1e-6)
    assert "view2 = model2.look(" in both[1]["python"]


def test_models_of_different_groups_are_not_compared():
    message = "'zoo:s3-parity-associative' and 'many' cannot be compared.*S3.*S5"
    with pytest.raises(StatetraceError, match=message):
        check_comparable([zoo(), random_model("many")])


def test_a_port_in_use_is_refused():
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(StatetraceError, match=f"port {port} on '127.0.0.1' cannot be used"):
            listen("127.0.0.1", port)
    with pytest.raises(StatetraceError, match="'no such host'"):
        listen("no such host", 0)


# The package


def test_assets_are_in_the_package():
    root = Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["statetrace"]
    assets = [
        file.relative_to(root / "statetrace").as_posix()
        for folder in ("explorer", "reports")
        for file in (root / "statetrace" / folder / "assets").iterdir()
    ]
    assert len(assets) > 8
    for name in assets:
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name


def test_other_commands_do_not_load_the_server():
    code = (
        "import sys, json, statetrace.cli, statetrace.explorer;"
        "print(json.dumps([m for m in ('starlette', 'uvicorn') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []


def test_the_largest_question_fits():
    """The largest question a page may ask of the zoo fits into what the server reads."""
    model = zoo()
    patches = [[layer, t, t] for layer in range(7) for t in range(48)]
    asked = {"actions": labels(model, 48), "source": labels(model, 48, 1), "patches": patches}
    asked["without"] = [[layer, head] for layer in range(1, 7) for head in range(4)]
    assert len(json.dumps(asked)) < MOST_BYTES
    with serving(model) as server:
        assert server.look(**asked)["notes"] == [
            "48 actions are more than the 24 the model was trained on"
        ]


def test_half_open_connections_keep_nobody_out(server, monkeypatch):
    """Neither those that send nothing, nor half a request, nor a whole one without the token."""
    heads = [b"", b"GET /", b"GET /none/ HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    others = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
    for number, other in enumerate(others):
        with contextlib.suppress(OSError):  # closed already
            other.sendall(heads[number % 3])
    assert server.look(actions=["123"])["states"] == [0]
    for other in others:
        other.close()


def test_a_connection_that_sends_nothing_is_closed(server, monkeypatch):
    monkeypatch.setattr("statetrace.explorer.connections.SECONDS", 0.05)
    for head in (b"", b"POST /", f"GET /{TOKEN}/ HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as other:
            other.sendall(head)
            with contextlib.suppress(ConnectionResetError):
                while other.recv(1 << 20):
                    pass


def test_a_client_that_goes_away_leaves_no_traceback(server, caplog):
    head = f"POST /{TOKEN}/api/look HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n"
    body = json.dumps({"actions": ["123"] * 4, "maps": True}).encode()
    for sent in (b"{", body.ljust(50)):
        with socket.create_connection(("127.0.0.1", server.port)) as other:
            other.sendall(head.encode() + sent)
    assert server.look(actions=["123"])["states"] == [0]
    assert not caplog.records
