"""The commands that faults.py disturbs, and the undisturbed results that it compares with.

Every command runs in the same folder, so that absolute paths in files are equal, and in a process
forked from one that has imported the libraries (tests/forkserver.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 300
"""Seconds after which a command hangs; a damaged lease is open after two minutes."""

MODEL = "--group Z3 --length 4 --model gpt2 --layers 2 --width 16 --heads 2 --dropout 0.1"
TRAIN = f"{MODEL} --sequences 81 --analysis-fraction 0.15 --batch 16 --device cpu --log-every 1"
SHORT = f"{TRAIN} --steps 36 --evaluate-every 6 --checkpoint-every 6 --keep 3"
LEARNS = (
    f"{TRAIN} --steps 400 --evaluate-every 100 --checkpoint-every 200 --width 32 --batch 64 "
    "--dropout 0 --learning-rate 5e-3"
)
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
keep = 2
"""
STAGES = """
[[stage]]
objective = "state"
length = 2
steps = 12
[[stage]]
objective = "state"
"""
GROUP = (
    """{"name": "mine", "labels": ["e", "a", "b"], "table": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}"""
)
VOLATILE = {"sessions", "hardware", "versions", "parameters", "training_sequences", "seconds",
            "cost", "tries", "when", "damages", "content_sha256"}  # fmt: skip
"""Keys of JSON files that may differ between equal runs: times, places, and their checksums."""

ANSWER = "answer.json"
"""Beside the folder, which may be read-only."""

QUESTION = {"actions": ["1", "2", "1"], "source": ["2", "2", "1"], "patches": [[1, 0, 1]]}


@dataclass
class Job:
    """A command with what it starts from and what it makes.

    Attributes:
        name: for the table.
        command: its arguments, without `statetrace`.
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


def popen(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start `statetrace ...`, or a script with these arguments, in a folder."""
    script = arguments[0].endswith(".py")
    command = [sys.executable, *([] if script else ["-m", "statetrace"]), *arguments]
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


def run(job: Job, folder: Path, arguments: list[str] | None = None) -> Ending:
    """Run a command to its end; an explorer answers one question and is stopped."""
    answer = folder.with_name(ANSWER)
    answer.unlink(missing_ok=True)
    process = popen(arguments or job.command, folder)
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


RUN = ("run/metrics.jsonl", "run/run.json", "run/checkpoints/step-36/*")
"""Which older checkpoints are kept depends on where a run was stopped."""

CELLS = ("study/cells/*/metrics.jsonl", "study/cells/*/checkpoints/step-18/*", "study/outcomes/*",
         "study/early/*", "study/study.json")  # fmt: skip
VERDICT = ("run/verdict.json", "run/lenses/generalization.*", "run/lenses/depth.*")
ENDED = ("study/outcomes/*", "study/study.json")
"""What counts once all cells have ended; their runs are not read any more."""

EVERYTHING = ("run/**/*",)
WHOLE_STUDY = ("study/**/*",)
STEPS = "run/checkpoints/step-*"

TRAINS = f"train --out run --resume {SHORT} --seed"
READS = f"train --out run --resume {SHORT.replace('--sequences 81', '--data data')}"
CHAIN = f"train stages.toml --out run --resume {SHORT.replace('Z3', 'group.json')} --seed"
WRITES = "data --group Z3 --length 4 --sequences 60 --out data --seed"
ANALYZES = "analyze run --only generalization,depth,patching,dynamics"
STUDIES = "study study.toml --out study --jobs 2"


class Folders:
    """What the jobs start from, each folder made when it is first needed."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        self.nothing = self._with("nothing", STUDY)
        self.elsewhere = self._with("elsewhere", STUDY.replace("steps = 18", "steps = 12"))

    def _with(self, name: str, study: str) -> Path:
        folder = self.root / name
        folder.mkdir()
        for file, text in (("study", study), ("stages", STAGES)):
            (folder / f"{file}.toml").write_text(text)
        (folder / "group.json").write_text(GROUP)
        return folder

    def made(self, start: Path, *commands: str) -> Path:
        """A folder in which commands were run."""
        target = self._target(start, *commands)
        if not target.exists():
            renew(self.work, start)
            for command in commands:
                done = ending(popen(command.split(), self.work))
                if done.status:
                    raise SystemExit(f"`{command}` failed undisturbed: {done.text}")
            renew(target, self.work)
        return target

    def stopped(self, start: Path, command: str, written: str, count: int) -> Path:
        """A folder in which a command and its workers were killed once there were so many files."""
        target = self._target(start, command, written)
        if target.exists():
            return target
        renew(self.work, start)
        process = popen(command.split(), self.work)
        while process.poll() is None and len(list(self.work.glob(written))) < count:
            time.sleep(0.002)
        process.kill()
        process.wait()
        for claim in self.work.glob("study/claims/[!.]*"):
            with suppress(OSError, ValueError):
                os.kill(json.loads(claim.read_text())["owner"]["pid"], signal.SIGKILL)
        time.sleep(0.5)
        renew(target, self.work)
        return target

    def _target(self, start: Path, *parts: str) -> Path:
        return self.root / hashlib.sha256(repr((start, parts)).encode()).hexdigest()[:16]

    def data(self, seed: int) -> Path:
        return self.made(self.nothing, f"{WRITES} {seed}")

    def half(self, seed: int) -> Path:
        return self.stopped(self.nothing, f"{TRAINS} {seed}", STEPS, 3)

    def chain(self, seed: int) -> Path:
        return self.stopped(self.nothing, f"{CHAIN} {seed}", STEPS, 2)

    def trained(self, seed: int) -> Path:
        return self.made(self.nothing, f"train --out run {LEARNS} --seed {seed}")

    def analyzed(self, seed: int) -> Path:
        return self.made(self.trained(seed), ANALYZES, "verdict run")

    def study(self, home: Path) -> Path:
        return self.made(home, STUDIES)

    def begun(self) -> Path:
        return self.stopped(self.nothing, STUDIES, "study/cells/*/checkpoints/step-*", 2)


RAY = "study on Ray"
Made = tuple[Path, tuple[str, ...], Path | None, tuple[str, ...]]
JOBS: dict[str, tuple[str, Callable[[Folders], Made]]] = {
    "train": (f"{TRAINS} 0", lambda f: (f.nothing, RUN, None, ())),
    "train, resumed": (f"{TRAINS} 0", lambda f: (f.half(0), RUN, f.half(1), EVERYTHING)),
    "train in stages": (f"{CHAIN} 0", lambda f: (f.chain(0), RUN, f.chain(1),
                                                  EVERYTHING)),
    "train on data": (READS, lambda f: (f.data(0), RUN, f.data(1), ("data/*",))),
    "train on data, resumed": (READS, lambda f: (f.stopped(f.data(0), READS, STEPS, 3), RUN,
                                                 f.data(1), ("data/*",))),
    "analyze": (ANALYZES, lambda f: (f.trained(0), ("run/lenses/*",), f.trained(1), EVERYTHING)),
    "analyze again": (ANALYZES, lambda f: (f.analyzed(0), ("run/lenses/*",), f.analyzed(1),
                                           EVERYTHING)),
    "verdict": ("verdict run", lambda f: (f.analyzed(0), VERDICT,
                                          f.analyzed(1), EVERYTHING)),
    "report": ("report run", lambda f: (f.analyzed(0), ("run/report.html",), f.analyzed(1),
                                        EVERYTHING)),
    "explorer": ("explore run --no-open --port 0",
                 lambda f: (f.trained(0), (f"../{ANSWER}",), f.trained(1), EVERYTHING)),
    "study": (STUDIES, lambda f: (f.nothing, CELLS, None, ())),
    "study, resumed": (STUDIES, lambda f: (f.begun(), CELLS, f.study(f.elsewhere), WHOLE_STUDY)),
    "study again": (STUDIES, lambda f: (f.study(f.nothing), ENDED, f.study(f.elsewhere),
                                        WHOLE_STUDY)),
    RAY: (f"{STUDIES} --engine ray", lambda f: (f.nothing, CELLS, None, ())),
}  # fmt: skip
"""Name -> command, and (start, makes, other, damaged) of the job."""


def make_jobs(root: Path, names: Iterable[str], tell: Callable[[str], None]) -> list[Job]:
    """Jobs with their undisturbed results. Each is run twice: what differs by itself cannot be
    compared."""
    folders, jobs = Folders(root), []
    ending(popen(["--version"], root))  # the first process waits for the imports
    for name in names:
        command, made = JOBS[name]
        start, makes, other, damaged = made(folders)
        job = Job(name, command.split(), start, makes, other, damaged)
        renew(folders.work, job.start)
        began = time.perf_counter()
        undisturbed = run(job, folders.work)
        job.seconds, job.expected = time.perf_counter() - began, results(job, folders.work)
        if undisturbed.status or not job.expected:
            raise SystemExit(f"'{name}' failed undisturbed: {undisturbed.text}")
        renew(folders.work, job.start)
        run(job, folders.work)
        if differences(job, folders.work):
            raise SystemExit(f"'{name}' differs from itself: {differences(job, folders.work)}")
        tell(f"{name}: {job.seconds:.2f} s, {len(job.expected)} files")
        jobs.append(job)
    return jobs


def differences(job: Job, folder: Path) -> list[str]:
    """Files of a job that are missing or not as expected; a stopped run has further checkpoints."""
    now = results(job, folder)
    return sorted(name for name, digest in job.expected.items() if now.get(name) != digest)
