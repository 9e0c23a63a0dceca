"""The study folder, which drivers, workers and people share, on one machine or many.

    STUDY/study.json            the plan: every cell with its whole recipe
    STUDY/cells/NAME/           the run folder of a cell
    STUDY/claims/NAME.N         leases: who works on a cell, or did (leases.py)
    STUDY/early/NAME.json       the early evaluation
    STUDY/failures/NAME.json    failed attempts, with the reason for each
    STUDY/outcomes/NAME.json    how it ended; a cell with an outcome is never trained again. If the
                                outcome is damaged, the cell resumes at its last checkpoint
    STUDY/results.*             the table (table.py); evidence.*, the evidence of its verdicts

Cost: a few small files per cell; needs no torch.
Caveat: several machines must share the folder on one file system.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.runs import Run, write_json, writing
from statetrace.studies.grid import Cell, StudyPlan

FINISHED, FAILED = "finished", "failed"

DEATHS = 20
"""Deaths of workers without progress after which a cell has failed: one that needs more memory than
there is would otherwise be tried forever."""

REPAIRS = {
    "outcomes": "run the study again to restore it from the last checkpoint",
    "early": "run the study again to repeat the evaluation",
    "failures": "earlier failures are not counted",
}
"""What happens to a damaged file of a cell."""


@dataclass(frozen=True)
class Study:
    """A study folder that has a plan."""

    path: Path

    @staticmethod
    def existing(path: Path) -> Study:
        if not (path / "study.json").is_file():
            raise StatetraceError(
                f"'{path}' is not a study folder: it has no study.json; "
                f"`statetrace study FILE --out {path}` creates one"
            )
        return Study(path.resolve())

    @staticmethod
    def prepare(path: Path, plan: StudyPlan) -> Study:
        """Create a study, or continue one: cells may have been added, but not changed."""
        study = Study(path.resolve())
        if (path / "study.json").is_file():
            _check_grown(path, study.plan, plan)
        elif Run(path).exists():
            raise StatetraceError(f"'{path}' already holds a run; choose another --out")
        elif (path / "config.json").is_file():
            raise StatetraceError(f"'{path}' already holds a checkpoint; choose another --out")
        with writing(path):
            for name in ("cells", "claims", "early", "failures", "outcomes"):
                (path / name).mkdir(parents=True, exist_ok=True)
        write_json(path / "study.json", {"format": 1, **plan.to_dict()})
        return Study(path.resolve())

    @cached_property
    def plan(self) -> StudyPlan:
        file = self.path / "study.json"
        try:
            return StudyPlan.of(json.loads(file.read_text()))
        except (ValueError, KeyError, TypeError) as error:
            raise StatetraceError(
                f"{file} is damaged ({error}); run `statetrace study FILE` into another folder"
            ) from None

    def cell(self, name: str) -> Cell:
        for cell in self.plan.cells:
            if cell.name == name:
                return cell
        raise StatetraceError(
            f"'{self.path}' has no cell '{name}'; the first of its {len(self.plan.cells)} is "
            f"'{self.plan.cells[0].name}'"
        )

    def run(self, cell: Cell) -> Run:
        return Run(self.path / "cells" / cell.name)

    def ended(self) -> set[str]:
        """Names of the cells that have an outcome. Lists one directory, and reads each outcome the
        first time, because a damaged one does not count."""
        folder = self.path / "outcomes"
        names = {
            entry.name.removesuffix(".json")
            for entry in (os.scandir(folder) if folder.is_dir() else ())
            if not entry.name.startswith(".")
        }
        self._sound.update(name for name in names - self._sound if self._outcome(name) is not None)
        return names & self._sound

    @cached_property
    def _sound(self) -> set[str]:
        """Names of the cells whose outcome was read and is valid."""
        return set()

    def outcome(self, cell: Cell) -> dict[str, Any] | None:
        """How a cell ended; None where it has not, or where the file is damaged."""
        return self._outcome(cell.name)

    def _outcome(self, name: str) -> dict[str, Any] | None:
        record = _read(self.path / "outcomes" / f"{name}.json")
        return record if _is_outcome(record) else None

    def damaged(self, cell: Cell) -> str | None:
        """Which of a cell's files is damaged, and what follows, as a sentence."""
        checks: dict[str, Callable[[Any], bool]] = {
            "outcomes": _is_outcome,
            "early": _is_evaluation,
            "failures": _is_failures,
        }
        for folder, is_valid in checks.items():
            file = self.path / folder / f"{cell.name}.json"
            if file.exists() and not is_valid(_read(file)):
                return f"{file} is damaged; {REPAIRS[folder]}"
        return None

    def damages(self) -> list[str]:
        """The sentences of `damaged` about cells that have not ended."""
        ended = self.ended()
        cells = [cell for cell in self.plan.cells if cell.name not in ended]
        return [sentence for cell in cells if (sentence := self.damaged(cell)) is not None]

    def end(self, cell: Cell, state: str, about: dict[str, Any]) -> None:
        tries = len(self.failures(cell)) + (state == FINISHED)
        record = {"state": state, "tries": tries, "when": now(), **about}
        write_json(self.path / "outcomes" / f"{cell.name}.json", record)

    def replace_final(self, cell: Cell, evaluation: dict[str, Any]) -> None:
        """Store a later evaluation of a cell that has ended."""
        record = (self.outcome(cell) or {}) | {"final": evaluation, "looked": now()}
        write_json(self.path / "outcomes" / f"{cell.name}.json", record)

    def forget_failed(self) -> list[str]:
        """Let failed cells be tried again from their last checkpoint; returns their names."""
        failed = [cell for cell in self.plan.cells if self._failed(cell)]
        for cell in failed:
            (self.path / "failures" / f"{cell.name}.json").unlink(missing_ok=True)
            (self.path / "outcomes" / f"{cell.name}.json").unlink(missing_ok=True)
        return [cell.name for cell in failed]

    def _failed(self, cell: Cell) -> bool:
        outcome = self.outcome(cell)
        return outcome is not None and outcome["state"] == FAILED

    def early(self, cell: Cell) -> dict[str, Any] | None:
        record = _read(self.path / "early" / f"{cell.name}.json")
        return record if _is_evaluation(record) else None

    def write_early(self, cell: Cell, evaluation: dict[str, Any]) -> None:
        write_json(self.path / "early" / f"{cell.name}.json", evaluation)

    def failures(self, cell: Cell) -> list[dict[str, Any]]:
        records = _read(self.path / "failures" / f"{cell.name}.json")
        return list(records) if _is_failures(records) else []

    def add_failure(self, cell: Cell, why: str, worker: str, died: bool = False) -> None:
        """Record a failed attempt; `died` where its worker died too."""
        record: dict[str, Any] = {"why": why, "at": self.position(cell), "worker": worker}
        record |= {"died": died, "when": now()}
        file = self.path / "failures" / f"{cell.name}.json"
        write_json(file, [*self.failures(cell), record])

    def gave_up(self, cell: Cell) -> bool:
        """Whether a cell used up its retries without progress between them. A worker that died says
        little about its cell: machines are preempted, so many more deaths than errors are allowed.
        """
        failures = self.failures(cell)
        stuck = [*itertools.takewhile(lambda f: f["at"] == failures[-1]["at"], reversed(failures))]
        deaths = sum(failure["died"] for failure in stuck)
        return len(stuck) - deaths > self.plan.settings.retries or deaths >= DEATHS

    def position(self, cell: Cell) -> str:
        """The newest checkpoint of every stage of a cell."""
        run = self.run(cell)
        stages = run.path / "stages"
        names = sorted(path.name for path in stages.iterdir()) if stages.is_dir() else []
        homes = [*((name, run.stage(name)) for name in names), ("", run)]
        newest = [(name, home.checkpoints()[-1:]) for name, home in homes]
        return " ".join(f"{name}:{last[0][0]}" for name, last in newest if last)


def _check_grown(path: Path, before: StudyPlan, after: StudyPlan) -> None:
    cells = {cell.name: cell for cell in after.cells}
    for cell in before.cells:
        if cell.name not in cells:
            raise StatetraceError(
                f"'{path}' has a cell '{cell.name}' that is missing from the study file; "
                "cells may be added but not removed: restore it, or choose another --out"
            )
        if cells[cell.name].recipe != cell.recipe:
            raise StatetraceError(
                f"cell '{cell.name}' of '{path}' was planned with other settings; "
                "restore them, or choose another --out"
            )
    if before.settings != after.settings:
        raise StatetraceError(
            f"'{path}' was planned with {before.settings}, not {after.settings}; "
            "restore them, or choose another --out"
        )


def _read(file: Path) -> Any:
    """None where the file is missing or not JSON."""
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _is_outcome(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return record.get("state") == FAILED or (
        record.get("state") == FINISHED and isinstance(record.get("final"), dict)
    )


def _is_evaluation(record: Any) -> bool:
    return isinstance(record, dict) and "step" in record


def _is_failures(records: Any) -> bool:
    return isinstance(records, list) and all(
        isinstance(record, dict) and {"why", "at", "died"} <= record.keys() for record in records
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
