"""The run folder: everything that training passes on to analysis.

    RUN/run.json                recipe, versions, hardware, and the sessions it was trained in
    RUN/group.json              the table of a group that has no built-in name
    RUN/metrics.jsonl           one record per line; no clock times, so that equal runs are equal
    RUN/checkpoints/step-N/     a plain Hugging Face checkpoint, plus what exact resuming needs
    RUN/stages/1-topic/         the same for an earlier stage, if a recipe has several
    RUN/lenses/                 the results of each lens
    RUN/verdict.json            the last verdict, with its evidence

Needs no torch. Files are replaced whole (written under another name, then renamed), so a killed
process leaves either the old or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace import __version__
from statetrace.errors import StatetraceError
from statetrace.files import parse_json, read_json

if TYPE_CHECKING:
    from statetrace.groups import Group

CHECKSUMS = "checksums.json"
LOG = "metrics.jsonl"

OnMessage = Callable[[str], None]


def no_message(message: str) -> None:
    """Ignore messages."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Run:
    """A run folder; it need not exist yet."""

    path: Path

    @staticmethod
    def existing(path: Path) -> Run:
        """A folder that must already hold a run."""
        run = Run(path)
        if not run.exists():
            raise StatetraceError(f"'{path}' holds no run: there is no run.json in it")
        return run

    def exists(self) -> bool:
        return (self.path / "run.json").is_file()

    def check_new(self) -> None:
        """Refuse to start a run in the folder of a study."""
        if not self.exists() and (self.path / "study.json").is_file():
            raise StatetraceError(f"'{self.path}' already holds a study; choose another folder")

    @property
    def info(self) -> dict[str, Any]:
        """The contents of run.json."""
        file = self.path / "run.json"
        try:
            return dict(read_json(file))
        except (OSError, ValueError) as error:
            raise StatetraceError(f"{file} is damaged ({error}); start a new run") from None

    @property
    def external(self) -> bool:
        """Whether it analyzes a checkpoint that was not trained in this folder."""
        return isinstance(self.info.get("foreign"), dict)

    @property
    def task(self) -> dict[str, Any]:
        """group, length and notation of the word problem."""
        info = self.info
        settings = info["foreign"] if self.external else self.recipe.get("task", {})
        try:
            return {key: settings[key] for key in ("group", "length", "notation")}
        except (KeyError, TypeError):
            raise StatetraceError(
                f"{self.path / 'run.json'} does not name the group, length and notation"
            ) from None

    @property
    def group(self) -> Group:
        """The group whose states the model tracks; RUN/group.json where it has no built-in name."""
        from statetrace.groups import stored_group

        return stored_group(self.path, self.task["group"], self.task["notation"])

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe in run.json, as nested dictionaries."""
        info = self.info
        if "foreign" in info:
            raise StatetraceError(
                f"'{self.path}' analyzes an external checkpoint and was not trained here"
            )
        if not isinstance(info.get("recipe"), dict):
            raise StatetraceError(f"{self.path / 'run.json'} is damaged (it has no recipe)")
        return dict(info["recipe"])

    def write_info(self, info: dict[str, Any]) -> None:
        write_json(self.path / "run.json", info)

    def stage(self, name: str) -> Run:
        """The folder of an earlier stage's checkpoints; the last stage's are the run's own, and all
        stages share one log."""
        return Run(self.path / "stages" / name)

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, folder) of every completely written checkpoint, oldest first."""
        folder = self.path / "checkpoints"
        paths = folder.iterdir() if folder.is_dir() else iter(())
        steps = [(re.fullmatch(r"step-(\d+)", path.name), path) for path in paths]
        return sorted((int(match[1]), path) for match, path in steps if match)

    def newest_checkpoint(self, on_message: OnMessage) -> tuple[int, Path] | None:
        """(step, folder) of the newest undamaged checkpoint, with a message for each damaged one
        that is skipped."""
        for step, folder in reversed(self.checkpoints()):
            damage = checkpoint_damage(folder)
            if damage is None:
                return step, folder
            on_message(f"checkpoint {folder} is damaged ({damage}); using the one before it")
        return None

    def append(self, record: dict[str, Any]) -> None:
        with (self.path / LOG).open("a") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of metrics.jsonl, all or of one kind; a half-written line is skipped."""
        lines = self.log_text().splitlines()
        records = []
        for line in lines:
            with contextlib.suppress(ValueError):
                record = parse_json(line)
                if isinstance(record.get("kind"), str) and isinstance(record.get("step"), int):
                    records.append(record)
        return [record for record in records if kind is None or record["kind"] == kind]

    def log_text(self) -> str:
        file = self.path / LOG
        return file.read_text(errors="replace") if file.is_file() else ""

    def evaluations(self) -> list[dict[str, Any]]:
        """Evaluations of the state in the newest stage that has any: in a finished run the last.
        Those of other stages are in `metrics`, each record with its stage."""
        records = self.metrics("evaluation")
        return [record for record in records if record.get("stage") == records[-1].get("stage")]

    def forget_after(
        self, step: int, stage: str | None = None, earlier: Iterable[str] = ()
    ) -> None:
        """Drop the records after `step` of `stage`, and all of stages other than the `earlier`
        ones: a run resumed there writes them again."""
        earlier = set(earlier)
        remaining = [
            record
            for record in self.metrics()
            if record.get("stage") in earlier
            or (record.get("stage") == stage and record["step"] <= step)
        ]
        lines = "".join(json.dumps(record) + "\n" for record in remaining)
        write_text(self.path / LOG, lines)

    def restore_log(self, checkpoint: Path) -> bool:
        """Continue the log as it was when a checkpoint was written, and say whether it had been
        damaged since. Older checkpoints have no copy of it."""
        log = (checkpoint / LOG).read_text()
        damaged = not self.log_text().startswith(log)
        write_text(self.path / LOG, log)
        return damaged

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held while a process trains here; the system releases it however the process ends."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StatetraceError(f"another process is training in '{self.path}'") from None
            yield


@cache
def source_commit() -> str:
    """The commit of a checkout, "-dirty" if the package was changed since; the version of an
    installed package."""
    package = Path(__file__).parent
    if not (package.parent / ".git").exists():
        return __version__

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("describe", "--always", "--abbrev=12") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return __version__


def checkpoint_damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint folder, or None if every file matches its checksum."""
    try:
        checksums = read_json(folder / CHECKSUMS)
    except (OSError, ValueError):
        return f"{CHECKSUMS} is missing or unreadable"
    weights = [file.name for file in folder.glob("*.safetensors")]
    for name in weights or ["model.safetensors"]:
        if name not in checksums:
            return f"{CHECKSUMS} does not mention {name}"
    for name, checksum in checksums.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if digest(folder / name) != checksum:
            return f"{name} does not match its checksum"
    return None


def digest(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one sentence."""
    try:
        yield
    except OSError as error:
        raise StatetraceError(
            f"cannot write '{path}' ({error.strerror}); choose another folder"
        ) from error
