"""The run folder: everything that training passes on to analysis.

    RUN/run.json                recipe, versions, hardware, and the sessions it was trained in
    RUN/group.json              the table of a group that has no built-in name
    RUN/metrics.jsonl           one record per line; no clock times, so that equal runs are equal
    RUN/checkpoints/step-N/     a plain Hugging Face checkpoint, plus what exact resuming needs
    RUN/stages/1-topic/         the same for an earlier stage, if a recipe has several
    RUN/lenses/                 the results of each lens
    RUN/verdict.json            the last verdict, with its evidence

Needs no torch. A checkpoint holds the recipe, the log so far and checksums of its files; damaged
run.json and metrics.jsonl are restored from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
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
from statetrace.files import digest, parse_json, read_json, write_json, write_text, writing

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
        return (self.path / "run.json").is_file() or self._restored() is not None

    def check_new(self) -> None:
        """Refuse to start a run in the folder of a study."""
        if not self.exists() and (self.path / "study.json").is_file():
            raise StatetraceError(f"'{self.path}' already holds a study; choose another folder")

    @property
    def info(self) -> dict[str, Any]:
        """The contents of run.json; if that is damaged, what the newest checkpoint says."""
        file = self.path / "run.json"
        restored = self._restored()
        try:
            info = dict(read_json(file))
            if restored is not None and not isinstance(info.get("recipe"), dict):
                raise ValueError("it has no recipe")
        except (OSError, ValueError) as error:
            if restored is None:
                raise StatetraceError(
                    f"{file} is damaged ({error}), and there is no checkpoint to restore it from; "
                    "delete it and run the same command again"
                ) from None
            return restored
        if restored is not None and contradict(info.get("recipe"), restored["recipe"]):
            raise StatetraceError(
                f"{file} describes a different run than the newest checkpoint; delete the one that "
                "does not belong here (run.json is then restored from the checkpoint)"
            )
        return info

    def info_damage(self) -> str | None:
        """What is wrong with run.json, if it is restored from a checkpoint."""
        try:
            if isinstance(read_json(self.path / "run.json").get("recipe"), dict):
                return None
        except (OSError, ValueError) as error:
            return str(error)
        return "it has no recipe"

    def _restored(self) -> dict[str, Any] | None:
        """What run.json must say according to the newest checkpoint of the latest stage."""
        for folder in self._checkpoints_of_stages():
            with contextlib.suppress(OSError, ValueError):
                recipe = read_json(folder / "training.json").get("recipe")
                if isinstance(recipe, dict):
                    return {"format": 1, "sessions": [], "recipe": recipe}
        return None

    def _checkpoints_of_stages(self) -> Iterator[Path]:
        """The folders of all checkpoints, newest first."""
        stages = self.path / "stages"
        earlier = sorted(stages.iterdir(), reverse=True) if stages.is_dir() else []
        for run in (self, *map(Run, earlier)):
            yield from (folder for _, folder in reversed(run.checkpoints()))

    @property
    def external(self) -> bool:
        """Whether it analyzes a checkpoint that was not trained in this folder."""
        return isinstance(self.info.get("foreign"), dict)

    @property
    def has_weights(self) -> bool:
        """Whether lenses can be computed; an exported run may have results only."""
        if self.external or self.checkpoints():
            return True
        return not (self.path / "lenses").is_dir()  # one that was never trained has neither

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
        """The records of the log, all or of one kind; a half-written line is skipped."""
        records = []
        for line in self.sound_log().splitlines():
            with contextlib.suppress(ValueError):
                record = parse_json(line)
                if isinstance(record.get("kind"), str) and isinstance(record.get("step"), int):
                    records.append(record)
        return [record for record in records if kind is None or record["kind"] == kind]

    def log_text(self) -> str:
        """metrics.jsonl as it is."""
        file = self.path / LOG
        return file.read_text(errors="replace") if file.is_file() else ""

    def sound_log(self) -> str:
        """metrics.jsonl, or, if it was damaged since the newest checkpoint, the checkpoint's copy.
        Checkpoints of older versions have none."""
        text = self.log_text()
        for folder in self._checkpoints_of_stages():
            with contextlib.suppress(OSError, ValueError):
                checksum = read_json(folder / CHECKSUMS).get(LOG)
                if checksum == digest(folder / LOG):
                    copy = (folder / LOG).read_text()
                    return text if text.startswith(copy) else copy
        return text

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
        if not (checkpoint / LOG).is_file():
            return False
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


def contradict(setting: Any, other: Any) -> bool:
    """Whether two recipes have different values for a setting that both have. Another version may
    know other settings, and a run may be prolonged, so steps do not count."""
    if isinstance(setting, dict) and isinstance(other, dict):
        shared = setting.keys() & other.keys() - {STEPS}
        return any(contradict(setting[key], other[key]) for key in shared)
    if isinstance(setting, list) and isinstance(other, list) and len(setting) == len(other):
        return any(map(contradict, setting, other))
    return bool(setting != other)


STEPS = "steps"


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
