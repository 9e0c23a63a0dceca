"""What fuzz.py reads its inputs with: one function of bytes per kind of input.

A target that reads a folder takes the number of a file in the first byte, and its new content in
the rest; all other files stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

import statetrace as st
from statetrace import files
from statetrace.config.recipe import Recipe
from statetrace.explorer.requests import Request, respond
from statetrace.explorer.server import HEADERS, Trust, application
from statetrace.groups import Group, group
from statetrace.inspection import Session, make_session
from statetrace.lenses.result import LensResult
from statetrace.models import load_checkpoint
from statetrace.reports.run_results import newest
from statetrace.runs import Run
from statetrace.studies import leases
from statetrace.studies.folder import Study
from statetrace.studies.grid import read_study
from statetrace.studies.survey import Survey
from statetrace.tasks.sequences import Sequences

SHARES = {
    "json": 0.436, "toml": 0.1, "request": 0.27, "group-name": 0.02, "group-file": 0.06,
    "recipe": 0.05, "study-file": 0.01, "data": 0.02, "run": 0.015, "lens": 0.01, "study": 0.01,
    "answer": 0.004, "http": 0.004, "checkpoint": 0.001,
}  # fmt: skip
"""Share of all inputs that each target gets: the cheap ones get most."""

TOY = {
    "group": "S3", "length": 4, "model": "gpt2", "layers": 1, "width": 8, "heads": 1, "steps": 4,
    "sequences": 60, "batch": 4, "device": "cpu", "evaluate_every": 2, "evaluate_sequences": 4,
    "checkpoint_every": 2, "log_every": 1,
}  # fmt: skip
STUDY = """seeds = 2
early = 2
verdict = "quick"
[settings]
group = "S3"
length = 4
model = "gpt2"
layers = 1
width = 8
heads = 1
steps = 4
[grid]
learning_rate = [1e-3, 1e-2]
"""
NAMES = ("S3", "S5", "A4xZ5", "Z12", "D6", "S3xS3", "Z2xZ2xZ2", "a.json", "Z999", "A99")
WORDS = (b"S", b"A", b"Z", b"D", b"x", b"X", b"5", b"10", b".json", "\u00b2".encode())


@dataclass(frozen=True)
class Target:
    """Something that reads input: valid `seeds`, and `tokens` that occur in its inputs."""

    name: str
    read: Callable[[bytes], object]
    seeds: list[bytes]
    tokens: tuple[bytes, ...] = ()


def in_file(file: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of files, as a function of their content."""

    def reader(body: bytes) -> object:
        file.write_bytes(body)
        return read(file)

    return reader


def in_folder(name: str, folder: Path, read: Callable[[Path], object]) -> Target:
    """A reader of folders, as a function of the file that is replaced and of its content. Checksums
    are left out, as in files of older versions: they would refuse almost every input."""
    for file in folder.rglob("*.json"):
        content = json.loads(file.read_text())
        if isinstance(content, dict) and content.pop(files.SEAL, None):
            content.pop("files", None)  # of a lens result
            file.write_text(json.dumps(content))
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    contents = [path.read_bytes() for path in paths]

    def reader(body: bytes) -> object:
        number = (body[0] if body else 0) % len(paths)
        try:
            paths[number].write_bytes(body[1:])
            return read(folder)
        finally:
            paths[number].write_bytes(contents[number])

    seeds = [bytes([number]) + content for number, content in enumerate(contents)]
    return Target(name, reader, [seed for seed in seeds if len(seed) < 40_000])


def make_targets(root: Path) -> list[Target]:
    """All targets, with their files in `root`."""
    run = root / "run"
    model = st.train(out=run, **TOY)
    model.analyze(["generalization", "dynamics"])
    study = _study(root, run)
    session = make_session(st.load(run).loaded, "run")
    recipe = Recipe().override(TOY).to_toml().encode()
    settings = tuple(line.split(b"=")[0] for line in recipe.splitlines() if b"=" in line)
    requests = [json.dumps(request).encode() for request in REQUESTS]
    record = (run / "metrics.jsonl").read_bytes().splitlines()[0]
    quaternions = b'{"name": "Z3", "labels": ["0", "1", "2"], "table": [[0,1,2],[1,2,0],[2,0,1]]}'
    generated = b'{"name": "A4", "generators": ["2143", "2314"]}'
    matrices = b'{"generators": [[[0, 1], [2, 0]], [[1, 1], [1, 2]]], "modulus": 3}'
    return [
        Target("json", _json, [record, (run / "run.json").read_bytes(), *requests]),
        Target("toml", in_file(root / "any.toml", _toml), [recipe, STUDY.encode()]),
        Target("request", Request.of, requests),
        Target("group-name", _group, [name.encode() for name in NAMES], WORDS),
        Target("group-file", in_file(root / "group.json", Group.load),
               [quaternions, generated, matrices]),
        Target("recipe", in_file(root / "recipe.toml", Recipe.read), [recipe], settings),
        Target("study-file", in_file(root / "study.toml", read_study), [STUDY.encode()], settings),
        in_folder("data", _data(root), lambda folder: Sequences.load(folder, group("S3"))),
        in_folder("run", run, _run),
        in_folder("lens", run / "lenses", lambda folder: LensResult.load(folder, "generalization")),
        in_folder("study", study, _read_study),
        Target("answer", lambda body: _answer(session, body), requests),
        Target("http", _http(session), _http_seeds(requests), HTTP),
        in_folder("checkpoint", _checkpoint(root, run), load_checkpoint),
    ]  # fmt: skip


REQUESTS = (
    {"actions": ["123", "213"], "source": ["132", "213"], "patches": [[0, 0, 1]], "at": 1},
    {"model": 0, "step": 2, "actions": ["321"], "without": [[0, 0]], "head": [0, 0], "maps": True},
    {"actions": [], "instead": "zero"},
)


def _json(body: bytes) -> None:
    """Any JSON, as bytes and as text."""
    for text in (body, body.decode(errors="replace")):
        with contextlib.suppress(ValueError):
            files.parse_json(text)


def _toml(file: Path) -> None:
    with contextlib.suppress(ValueError):
        files.read_toml(file)


def _group(body: bytes) -> None:
    name = body.decode(errors="replace")
    if ":" not in name:  # which imports a module
        group(name)


def _data(root: Path) -> Path:
    actions = np.random.default_rng(0).integers(0, 6, size=(20, 4), dtype=np.uint8)
    states = np.zeros_like(actions)
    states[:, 0] = actions[:, 0]
    for t in range(1, 4):
        states[:, t] = group("S3").table[states[:, t - 1], actions[:, t]]
    Sequences(actions, states).save(root / "data", group("S3"))
    return root / "data"


def _run(folder: Path) -> None:
    """Everything that is read without loading the model."""
    run = Run(folder)
    run.task, run.group, run.recipe, run.evaluations()
    for name in ("about", "verdict", "outdated"):
        getattr(newest(folder), name)
    newest(folder).lens("dynamics")


def _study(root: Path, run: Path) -> Path:
    (root / "plan.toml").write_text(STUDY)
    study = Study.prepare(root / "study", read_study(root / "plan.toml"))
    for cell in study.plan.cells[:2]:
        shutil.copytree(run, study.run(cell).path, ignore=shutil.ignore_patterns("*.safetensors"))
        study.write_early(cell, {"step": 2, "quick": "unlearned"})
    with leases.take(study.path / "claims", study.plan.cells[1].name):
        study.add_failure(study.plan.cells[1], "it failed", "a worker")
    study.end(study.plan.cells[0], "finished", {"final": {"step": 4, "quick": "unlearned"}})
    return study.path


def _read_study(folder: Path) -> None:
    study = Study.existing(folder)
    Survey(study).look()
    study.damages()


def _answer(session: Session, body: bytes) -> None:
    respond([session], Request.of(body))


HTTP = (b"GET ", b"POST ", b"HEAD ", b"OPTIONS ", b"/token/", b"/assets/", b"/api/", b"%2e%2e/",
        b"host: evil.example", b"origin: http://evil.example", b"?", b"127.0.0.1")  # fmt: skip
STATUSES = {200, 307, 400, 403, 404, 405, 413}


def _http_seeds(bodies: list[bytes]) -> list[bytes]:
    """A request of every kind: the first line, headers, an empty line and the body."""
    host = b"\nhost: 127.0.0.1\norigin: http://127.0.0.1\n\n"
    pages = (b"", b"assets/index.html", b"assets/page.css", b"api/about")
    seeds = [b"GET /token/" + page + host for page in pages]
    return seeds + [b"POST /token/api/look" + host + body for body in bodies] * 4


def _http(session: Session) -> Callable[[bytes], object]:
    """The whole application, without sockets. Every answer must have the security headers and an
    expected status, and every error must be one line."""
    application_ = application([session], "token", Trust.for_host("127.0.0.1"))

    def read(body: bytes) -> None:
        head, _, content = body.partition(b"\n\n")
        line, *lines = head.split(b"\n")
        method, _, target = line.partition(b" ")
        path, _, query = target.partition(b"?")
        pairs = [line.partition(b": ") for line in lines]
        scope = {
            "type": "http", "http_version": "1.1", "scheme": "http", "root_path": "",
            "method": method.decode("latin-1"), "path": unquote(path.decode("latin-1")),
            "raw_path": path, "query_string": query, "server": ("127.0.0.1", 80),
            "headers": [(name.lower(), value) for name, _, value in pairs],
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(application_(scope, receive, send))  # type: ignore[arg-type]
        start, text = sent[0], b"".join(message.get("body", b"") for message in sent[1:])
        assert start["status"] in STATUSES, start
        names = {name.decode() for name, _ in start["headers"]}
        assert names >= HEADERS.keys() | ({"allow"} if start["status"] == 405 else set()), start
        if start["status"] >= 400 and method != b"HEAD":
            (error,) = json.loads(text).values()
            assert error
            assert "\n" not in error

    return read


def _checkpoint(root: Path, run: Path) -> Path:
    return shutil.copytree(Run(run).checkpoints()[-1][1], root / "checkpoint")
