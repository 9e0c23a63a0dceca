"""The commands that faults.py disturbs, and the undisturbed results that it compares with.

Every command runs in the same folder, so that absolute paths in files are equal, and in a process
forked from one that has imported the libraries (tests/forkserver.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 120
"""Seconds after which a command hangs."""

MODEL = "--group Z3 --length 4 --model gpt2 --layers 2 --width 16 --heads 2 --dropout 0.1"
TRAIN = f"{MODEL} --sequences 81 --analysis-fraction 0.15 --batch 16 --device cpu --log-every 1"
SHORT = f"{TRAIN} --steps 36 --evaluate-every 6 --checkpoint-every 6 --keep 3"
LEARNS = f"{TRAIN} --steps 300 --learning-rate 2e-2 --evaluate-every 50 --checkpoint-every 150"
STUDY = """
seeds = 2
early = 6
[settings]
group = "Z3"
length = 4
model = "gpt2"
layers = 2
width = 16
heads = 2
sequences = 81
analysis_fraction = 0.15
steps = 18
batch = 16
device = "cpu"
evaluate_every = 6
checkpoint_every = 6
"""
VOLATILE = {"sessions", "hardware", "versions", "parameters", "training_sequences", "seconds",
            "cost", "tries", "when", "damages", "sha256"}  # fmt: skip
"""Keys of JSON files that may differ between equal runs: times, places, and their checksums."""

ANSWER = "answer.json"
"""Beside the folder, which may be read-only."""

QUESTION = {"actions": ["1", "2", "1"], "source": ["2", "2", "1"], "patches": [[1, 0, 1]]}


@dataclass
class Job:
    """A command with what it starts from and what it makes.

    Attributes:
        name: for the table.
        command: its words; `statetrace` is left out.
        start: the folder that it starts from.
        makes: patterns of its results.
        other: a folder like `start` of another seed, whose files are swapped in.
        damaged: patterns of the files to damage; none if the command starts from nothing.
    """

    name: str
    command: list[str]
    start: Path
    makes: tuple[str, ...]
    other: Path | None = None
    damaged: tuple[str, ...] = ()
    seconds: float = 1.0
    expected: dict[str, str] = field(default_factory=dict)

    @property
    def serves(self) -> bool:
        return self.command[0] == "explore"


@dataclass
class Ending:
    """How a command ended: its status (None if it hung) and what it printed."""

    status: int | None
    text: str

    @property
    def sentence(self) -> str | None:
        """Its error, if that is one sentence."""
        lines = [line for line in self.text.splitlines() if line.startswith("error: ")]
        refused = self.status not in (0, None) and "Traceback (most recent" not in self.text
        return lines[0] if refused and len(lines) == 1 else None


def popen(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start `statetrace ...`, or a script of these words, in a folder."""
    script = words[0].endswith(".py")
    command = [sys.executable, *([] if script else ["-m", "statetrace"]), *words]
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "400"},
    )  # fmt: skip


def ending(process: subprocess.Popen[str]) -> Ending:
    try:
        text, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return Ending(None, "")
    return Ending(process.returncode, text)


def run(job: Job, folder: Path, words: list[str] | None = None) -> Ending:
    """Run a command to its end; an explorer answers one question and is stopped."""
    answer = folder.with_name(ANSWER)
    answer.unlink(missing_ok=True)
    process = popen(words or job.command, folder)
    if not job.serves:
        return ending(process)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("http://"):
            break
    else:
        return Ending(process.wait(), "".join(lines))
    answer.write_text(_ask(line.strip()))
    process.terminate()
    rest = ending(process)
    return Ending(0 if rest.status in (0, 130, -15) else rest.status, "".join(lines) + rest.text)


def _ask(url: str) -> str:
    request = urllib.request.Request(f"{url}api/look", json.dumps(QUESTION).encode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.dumps(json.load(answer) | {"ms": 0})
    except urllib.error.HTTPError as error:
        return error.read().decode()


def results(job: Job, folder: Path) -> dict[str, str]:
    """Digest of every file that a command makes, without what differs between equal runs."""
    files = sorted({file for pattern in job.makes for file in folder.glob(pattern)})
    files = [file for file in files if file.is_file() and not file.name.startswith(".")]
    return {os.path.relpath(file, folder): _digest(file) for file in files}


def _digest(file: Path) -> str:
    content = file.read_bytes()
    if file.name in ("run.json", "study.json") or file.parent.name in ("outcomes", "early"):
        content = json.dumps(_lasting(json.loads(content)), sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(part) for key, part in value.items() if key not in VOLATILE}
    return [_lasting(part) for part in value] if isinstance(value, list) else value


def renew(folder: Path, start: Path) -> None:
    """Make `folder` a copy of `start`."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(start, folder, symlinks=True)


RUN = ("run/metrics.jsonl", "run/run.json", "run/checkpoints/**/*")
MEASURED = ("run/lenses/*", "run/verdict.json")


def make_jobs(root: Path, tell: Callable[[str], None]) -> list[Job]:
    """All jobs with their undisturbed results, made in `root`."""
    nothing, work = root / "nothing", root / "work"
    nothing.mkdir()
    (nothing / "study.toml").write_text(STUDY)
    lenses = ["generalization", "depth", "patching", "probing", "dynamics"]

    def made(name: str, start: Path, *commands: str) -> Path:
        """A folder in which commands were run."""
        renew(work, start)
        for command in commands:
            done = ending(popen(command.split(), work))
            if done.status:
                raise SystemExit(f"`{command}` failed undisturbed: {done.text}")
        renew(root / name, work)
        return root / name

    def stopped(name: str, start: Path, command: str) -> Path:
        """A folder in which a training command was killed after half of its steps."""
        renew(work, start)
        process = popen(command.split(), work)
        while process.poll() is None and len(list(work.glob("run/checkpoints/step-*"))) < 3:
            time.sleep(0.002)
        process.kill()
        process.wait()
        renew(root / name, work)
        return root / name

    train = f"train --out run --resume {SHORT}"
    data = "data --group Z3 --length 4 --sequences 60 --out data --seed"
    reads = f"{train.replace('--sequences 81', '')} --data data"
    analyze = f"analyze run --only {' --only '.join(lenses)}"
    study = "study study.toml --out study --jobs 2"
    tell("making the undisturbed results")
    sets = [made(f"data-{seed}", nothing, f"{data} {seed}") for seed in (0, 1)]
    halves = [stopped(f"half-{seed}", nothing, f"{train} --seed {seed}") for seed in (0, 1)]
    read = stopped("half-data", sets[0], reads)
    trained = [
        made(f"trained-{seed}", nothing, f"train --out run {LEARNS} --seed {seed}")
        for seed in (0, 1)
    ]
    analyzed = [
        made(f"analyzed-{seed}", folder, analyze, "verdict run")
        for seed, folder in enumerate(trained)
    ]
    done = made("study-0", nothing, study)
    (nothing / "study.toml").write_text(STUDY.replace("steps = 18", "steps = 12"))
    other = made("study-1", nothing, study)
    (nothing / "study.toml").write_text(STUDY)
    everything, cells = ("run/**/*",), ("study/**/*",)
    explore = "explore run --no-open --port 0"
    tables = ("study/cells/**/metrics.jsonl", "study/cells/**/checkpoints/**/*",
              "study/outcomes/*", "study/early/*", "study/study.json")  # fmt: skip
    seed = f"{train} --seed 0"
    jobs = [
        Job("train", seed.split(), nothing, RUN),
        Job("train, resumed", seed.split(), halves[0], RUN, halves[1], everything),
        Job("train on data", reads.split(), sets[0], RUN, sets[1], ("data/*",)),
        Job("train on data, resumed", reads.split(), read, RUN, sets[1], ("data/*",)),
        Job("analyze", analyze.split(), trained[0], ("run/lenses/*",), trained[1], everything),
        Job("analyze again", analyze.split(), analyzed[0], ("run/lenses/*",), analyzed[1],
            everything),
        Job("verdict", ["verdict", "run"], analyzed[0], MEASURED, analyzed[1], everything),
        Job("report", ["report", "run"], analyzed[0], ("run/report.html",), analyzed[1],
            everything),
        Job("study", study.split(), nothing, tables),
        Job("study again", study.split(), done, tables, other, cells),
        Job("explorer", explore.split(), trained[0], (f"../{ANSWER}",), trained[1], everything),
    ]  # fmt: skip
    for job in jobs:
        renew(work, job.start)
        began = time.perf_counter()
        undisturbed = run(job, work)
        job.seconds, job.expected = time.perf_counter() - began, results(job, work)
        if undisturbed.status or not job.expected:
            raise SystemExit(f"'{job.name}' failed undisturbed: {undisturbed.text}")
        renew(work, job.start)
        run(job, work)
        if results(job, work) != job.expected:
            raise SystemExit(f"'{job.name}' differs from itself: {differences(job, work)}")
        tell(f"{job.name}: {job.seconds:.2f} s, {len(job.expected)} files")
    return jobs


def differences(job: Job, folder: Path) -> list[str]:
    now = results(job, folder)
    return sorted(k for k in {*now, *job.expected} if now.get(k) != job.expected.get(k))
