"""The run folder: the only thing handed from stage to stage.

    RUN/run.json                recipe, versions, hardware, and when it was worked on
    RUN/group.json              the table of a group that has no built-in name
    RUN/metrics.jsonl           one record per line; no clock times, so that equal runs are equal
    RUN/checkpoints/step-N/     a plain Hugging Face checkpoint and what exact resume needs
    RUN/stages/1-topic/         the same of an earlier stage, where a recipe has several
    RUN/lenses/                 what each lens saw

Needs no torch. Files are replaced whole (written beside, then renamed), so a killed process leaves
either the old or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.errors import StatetraceError

if TYPE_CHECKING:
    from statetrace.groups import Group


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
        """Refuse to begin a run in the folder of a study."""
        if not self.exists() and (self.path / "study.json").is_file():
            raise StatetraceError(f"'{self.path}' already holds a study; choose another --out")

    @property
    def info(self) -> dict[str, Any]:
        """What run.json says."""
        file = self.path / "run.json"
        try:
            found = json.loads(file.read_text())
        except ValueError as error:
            raise StatetraceError(f"{file} is damaged ({error}); start a new run") from None
        if not isinstance(found, dict):
            raise StatetraceError(f"{file} is damaged (no JSON object); start a new run")
        return found

    @property
    def external(self) -> bool:
        """Whether it analyses a checkpoint that was not trained in this folder."""
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
                f"'{self.path}' analyses an external checkpoint and was not trained here"
            )
        if not isinstance(info.get("recipe"), dict):
            raise StatetraceError(f"{self.path / 'run.json'} is damaged (it has no recipe)")
        return dict(info["recipe"])

    def write_info(self, info: dict[str, Any]) -> None:
        write_json(self.path / "run.json", info)

    def stage(self, name: str) -> Run:
        """Where the checkpoints of an earlier stage are kept; the last stage's are the run's own,
        and the log is one for all."""
        return Run(self.path / "stages" / name)

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, folder) of every checkpoint whose writing was completed, oldest first."""
        folder = self.path / "checkpoints"
        found = folder.iterdir() if folder.is_dir() else iter(())
        steps = [(re.fullmatch(r"step-(\d+)", path.name), path) for path in found]
        return sorted((int(match[1]), path) for match, path in steps if match)

    def append(self, record: dict[str, Any]) -> None:
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of metrics.jsonl, all or of one kind; a half-written line is left out."""
        file = self.path / "metrics.jsonl"
        lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
        records = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                record = json.loads(line)
                if isinstance(record, dict) and {"kind", "step"} <= record.keys():
                    records.append(record)
        return [record for record in records if kind is None or record["kind"] == kind]

    def evaluations(self) -> list[dict[str, Any]]:
        """How the state was tracked over training, in the newest stage that has been evaluated: of
        a finished run its last. Other stages are in `metrics`, each record with its stage."""
        found = self.metrics("evaluation")
        return [record for record in found if record.get("stage") == found[-1].get("stage")]

    def forget_after(self, step: int, stage: str | None = None, before: Iterable[str] = ()) -> None:
        """Drop records later than `step` of `stage`, and all of stages that are not `before` it: a
        run resumed there will write them again."""
        earlier = set(before)
        kept = [
            record
            for record in self.metrics()
            if record.get("stage") in earlier
            or (record.get("stage") == stage and record["step"] <= step)
        ]
        lines = "".join(json.dumps(record) + "\n" for record in kept)
        write_text(self.path / "metrics.jsonl", lines)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held while a process trains here; the system frees it however that process ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StatetraceError(f"another process is training in '{self.path}'") from None
            yield


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
