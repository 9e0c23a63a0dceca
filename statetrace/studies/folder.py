"""The study folder: all that drivers, workers and people share, on one machine or many.

    STUDY/study.json            the plan: every cell with its whole recipe
    STUDY/cells/NAME/           a run folder like any other
    STUDY/claims/NAME.N         who works on a cell, or did (claims.py)
    STUDY/early/NAME.json       what was measured at the early verdict
    STUDY/failures/NAME.json    what went wrong, try by try
    STUDY/outcomes/NAME.json    how it ended; a cell that has one is never trained again, but one
                                whose outcome is damaged is taken up at its last checkpoint
    STUDY/results.*             the table (table.py); evidence.*, what its verdicts rest on

Cost: a few small files per cell; needs no torch.
Caveat: on several machines the folder must be on a file system all of them see.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.runs import Run, write_json
from statetrace.studies.grid import Cell, StudyPlan

FINISHED, FAILED = "finished", "failed"

REMADE = {
    "outcomes": "the study, run again, makes it anew from the last checkpoint",
    "early": "the study, run again, measures anew",
    "failures": "earlier failures are not counted",
}
"""What becomes of a file of a cell that cannot be read."""


@dataclass(frozen=True)
class Study:
    """A study folder that has a plan."""

    path: Path

    @staticmethod
    def existing(path: Path) -> Study:
        if not (path / "study.json").is_file():
            raise StatetraceError(
                f"'{path}' holds no study: there is no study.json in it; "
                f"`statetrace study FILE --out {path}` begins one"
            )
        return Study(path.resolve())

    @staticmethod
    def prepare(path: Path, plan: StudyPlan) -> Study:
        """Begin a study, or take one up: it may have grown since, but not have changed."""
        study = Study(path.resolve())
        if (path / "study.json").is_file():
            _check_grown(path, study.plan, plan)
        elif Run(path).exists():
            raise StatetraceError(f"'{path}' already holds a run; choose another --out")
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
        """Names of the cells that have an outcome: one look at one directory, and one at each
        outcome the first time, as a damaged one counts for nothing."""
        names = {
            entry.name.removesuffix(".json")
            for entry in os.scandir(self.path / "outcomes")
            if not entry.name.startswith(".")
        }
        self._sound.update(name for name in names - self._sound if self._outcome(name) is not None)
        return names & self._sound

    @cached_property
    def _sound(self) -> set[str]:
        """Names of the cells whose outcome was read and found whole."""
        return set()

    def outcome(self, cell: Cell) -> dict[str, Any] | None:
        """How a cell ended; None where it has not, or where that cannot be read."""
        return self._outcome(cell.name)

    def _outcome(self, name: str) -> dict[str, Any] | None:
        found = _read(self.path / "outcomes" / f"{name}.json")
        return found if _is_outcome(found) else None

    def damaged(self, cell: Cell) -> str | None:
        """Which of a cell's files cannot be read, and what becomes of it, as a sentence."""
        readers: dict[str, Callable[[Any], bool]] = {
            "outcomes": _is_outcome,
            "early": _is_measured,
            "failures": _is_failures,
        }
        for folder, holds in readers.items():
            file = self.path / folder / f"{cell.name}.json"
            if file.exists() and not holds(_read(file)):
                return f"{file} is damaged; {REMADE[folder]}"
        return None

    def damages(self) -> list[str]:
        """What `damaged` says of the cells that have not ended."""
        over = self.ended()
        cells = [cell for cell in self.plan.cells if cell.name not in over]
        return [said for cell in cells if (said := self.damaged(cell)) is not None]

    def end(self, cell: Cell, state: str, about: dict[str, Any]) -> None:
        tries = len(self.failures(cell)) + (state == FINISHED)
        record = {"state": state, "tries": tries, "when": now(), **about}
        write_json(self.path / "outcomes" / f"{cell.name}.json", record)

    def replace_final(self, cell: Cell, measured: dict[str, Any]) -> None:
        """What a cell that has ended is found to be by a later look."""
        record = (self.outcome(cell) or {}) | {"final": measured, "looked": now()}
        write_json(self.path / "outcomes" / f"{cell.name}.json", record)

    def forget_failed(self) -> list[str]:
        """Let failed cells be tried again, from their last checkpoint; their names."""
        failed = [cell for cell in self.plan.cells if self._failed(cell)]
        for cell in failed:
            (self.path / "failures" / f"{cell.name}.json").unlink(missing_ok=True)
            (self.path / "outcomes" / f"{cell.name}.json").unlink(missing_ok=True)
        return [cell.name for cell in failed]

    def _failed(self, cell: Cell) -> bool:
        outcome = self.outcome(cell)
        return outcome is not None and outcome["state"] == FAILED

    def early(self, cell: Cell) -> dict[str, Any] | None:
        found = _read(self.path / "early" / f"{cell.name}.json")
        return found if _is_measured(found) else None

    def write_early(self, cell: Cell, measured: dict[str, Any]) -> None:
        write_json(self.path / "early" / f"{cell.name}.json", measured)

    def failures(self, cell: Cell) -> list[dict[str, Any]]:
        found = _read(self.path / "failures" / f"{cell.name}.json")
        return list(found) if _is_failures(found) else []

    def add_failure(self, cell: Cell, why: str, worker: str, died: bool = False) -> None:
        """One more thing that went wrong; `died` where it took its worker with it."""
        record: dict[str, Any] = {"why": why, "at": self.position(cell), "worker": worker}
        record |= {"died": died, "when": now()}
        file = self.path / "failures" / f"{cell.name}.json"
        write_json(file, [*self.failures(cell), record])

    def gave_up(self, cell: Cell) -> bool:
        """Whether a cell failed more often than it may without getting any further: one whose
        machines are taken away again and again, but which advances, has not failed."""
        places = [failure["at"] for failure in self.failures(cell)]
        stuck = 0
        for place in reversed(places):
            if place != places[-1]:
                break
            stuck += 1
        return stuck > self.plan.rules.retries

    def position(self, cell: Cell) -> str:
        """How far a cell got: its newest checkpoints, stage by stage."""
        run = self.run(cell)
        stages = run.path / "stages"
        names = sorted(path.name for path in stages.iterdir()) if stages.is_dir() else []
        homes = [*((name, run.stage(name)) for name in names), ("", run)]
        newest = [(name, home.checkpoints()[-1:]) for name, home in homes]
        return " ".join(f"{name}:{found[0][0]}" for name, found in newest if found)


def _check_grown(path: Path, before: StudyPlan, after: StudyPlan) -> None:
    cells = {cell.name: cell for cell in after.cells}
    for cell in before.cells:
        if cell.name not in cells:
            raise StatetraceError(
                f"'{path}' has a cell '{cell.name}' that the study file no longer has; "
                "a study may grow but not shrink, so put it back or choose another --out"
            )
        if cells[cell.name].recipe != cell.recipe:
            raise StatetraceError(
                f"cell '{cell.name}' of '{path}' was planned with other settings; "
                "put them back, or choose another --out"
            )
    if before.rules != after.rules:
        raise StatetraceError(
            f"'{path}' was planned with {before.rules}, not {after.rules}; "
            "put them back, or choose another --out"
        )


def _read(file: Path) -> Any:
    """None where there is no such file, or no JSON in it."""
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _is_outcome(found: Any) -> bool:
    if not isinstance(found, dict):
        return False
    return found.get("state") == FAILED or (
        found.get("state") == FINISHED and isinstance(found.get("final"), dict)
    )


def _is_measured(found: Any) -> bool:
    return isinstance(found, dict) and "step" in found


def _is_failures(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(one, dict) and {"why", "at", "died"} <= one.keys() for one in found
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
