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
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.files import read_json, seal, write_json, writing
from statetrace.runs import OnMessage, Run, contradict, no_message, now
from statetrace.studies.grid import Cell, StudyPlan, read_study

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
    def prepare(path: Path, plan: StudyPlan, on_message: OnMessage = no_message) -> Study:
        """Create a study, or continue one: cells may have been added, but not changed. A damaged
        study.json is written again if the plan agrees with the cells."""
        study, damage = Study(path.resolve()), None
        if (path / "study.json").is_file():
            try:
                before = study.plan
            except StatetraceError as error:
                damage = str(error)
            else:
                _check_grown(path, before, plan)
        elif Run(path).exists():
            raise StatetraceError(f"'{path}' already holds a run; choose another folder")
        elif (path / "config.json").is_file():
            raise StatetraceError(f"'{path}' already holds a checkpoint; choose another folder")
        if damage is not None or not (path / "study.json").is_file():
            _check_cells(path, plan)
        if damage is not None:
            on_message(f"{damage}; it is written again from the study file")
        with writing(path):
            for name in ("cells", "claims", "early", "failures", "outcomes"):
                (path / name).mkdir(parents=True, exist_ok=True)
        write_json(path / "study.json", {"format": 1, **plan.to_dict()})
        return Study(path.resolve())

    @cached_property
    def plan(self) -> StudyPlan:
        file = self.path / "study.json"
        try:
            return StudyPlan.of(read_json(file))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StatetraceError(
                f"{file} is damaged ({error}); `statetrace study FILE --out {self.path}` "
                "restores it"
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
        self._sound.update(n for n in names - self._sound if self._record("outcomes", n))
        return names & self._sound

    @cached_property
    def _sound(self) -> set[str]:
        """Names of the cells whose outcome was read and is valid."""
        return set()

    def outcome(self, cell: Cell) -> dict[str, Any] | None:
        """How a cell ended; None where it has not, or where the file is damaged."""
        return self._record("outcomes", cell.name)

    def _record(self, folder: str, name: str) -> Any:
        """A file of a cell; None where it is missing, damaged or that of another cell."""
        try:
            record = read_json(self.path / folder / f"{name}.json", object)
        except (FileNotFoundError, ValueError):
            return None
        if not IS_VALID[folder](record):
            return None
        mine = self._identity(name)
        if isinstance(record, dict) and record.pop("of", mine) != mine:
            return None
        return record

    def _identity(self, name: str) -> list[str]:
        """Of a cell, in its files: its name, and a checksum of its recipe."""
        return [name, self._checksums.get(name, "")]

    @cached_property
    def _checksums(self) -> dict[str, str]:
        return {cell.name: seal(dict(cell.recipe))[:16] for cell in self.plan.cells}

    def _write(self, folder: str, name: str, record: dict[str, Any]) -> None:
        record = {"of": self._identity(name)} | record
        write_json(self.path / folder / f"{name}.json", record)

    def damaged(self, cell: Cell) -> str | None:
        """Which of a cell's files is damaged, and what follows, as a sentence."""
        for folder, repair in REPAIRS.items():
            file = self.path / folder / f"{cell.name}.json"
            if file.exists() and self._record(folder, cell.name) is None:
                return f"{file} is damaged; {repair}"
        return None

    def damages(self) -> list[str]:
        """The sentences of `damaged` about cells that have not ended."""
        ended = self.ended()
        cells = [cell for cell in self.plan.cells if cell.name not in ended]
        return [sentence for cell in cells if (sentence := self.damaged(cell)) is not None]

    def end(self, cell: Cell, state: str, about: dict[str, Any]) -> None:
        tries = len(self.failures(cell)) + (state == FINISHED)
        record = {"state": state, "tries": tries, "when": now(), **about}
        self._write("outcomes", cell.name, record)

    def replace_final(self, cell: Cell, evaluation: dict[str, Any]) -> None:
        """Store a later evaluation of a cell that has ended."""
        record = (self.outcome(cell) or {}) | {"final": evaluation, "looked": now()}
        self._write("outcomes", cell.name, record)

    def forget_failed(self) -> list[str]:
        """Let failed cells be tried again from their last checkpoint; returns their names."""
        outcomes = {cell.name: self.outcome(cell) or {} for cell in self.plan.cells}
        failed = [name for name, outcome in outcomes.items() if outcome.get("state") == FAILED]
        for name in failed:
            for folder in ("failures", "outcomes"):
                (self.path / folder / f"{name}.json").unlink(missing_ok=True)
        return failed

    def early(self, cell: Cell) -> dict[str, Any] | None:
        return self._record("early", cell.name)

    def write_early(self, cell: Cell, evaluation: dict[str, Any]) -> None:
        self._write("early", cell.name, evaluation)

    def failures(self, cell: Cell) -> list[dict[str, Any]]:
        return self._record("failures", cell.name) or []

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


def _check_cells(path: Path, plan: StudyPlan) -> None:
    """Refuse a plan that does not agree with the runs that are in the folder already."""
    recipes = {cell.name: cell.recipe for cell in plan.cells}
    for folder in sorted((path / "cells").glob("*")):
        if not Run(folder).exists():
            continue
        if folder.name not in recipes or contradict(Run(folder).recipe, dict(recipes[folder.name])):
            raise StatetraceError(
                f"'{folder}' was trained with other settings than the study file has for it; "
                "restore them, or choose another folder"
            )


def _check_grown(path: Path, before: StudyPlan, after: StudyPlan) -> None:
    cells = {cell.name: cell for cell in after.cells}
    for cell in before.cells:
        if cell.name not in cells:
            raise StatetraceError(
                f"'{path / 'study.json'}' has a cell '{cell.name}' that is missing from the study "
                "file; cells may be added but not removed: restore it, or choose another folder"
            )
        mine, theirs = dict(cells[cell.name].recipe), dict(cell.recipe)
        # older versions had fewer settings
        if mine != theirs and Recipe.of(mine) != Recipe.of(theirs):
            raise StatetraceError(
                f"cell '{cell.name}' was planned with other settings in '{path / 'study.json'}'; "
                "restore them, or choose another folder"
            )
    if before.settings != after.settings:
        raise StatetraceError(
            f"'{path / 'study.json'}' was planned with {before.settings}, not {after.settings}; "
            "restore them, or choose another folder"
        )


def _is_outcome(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return record.get("state") == FAILED or (
        record.get("state") == FINISHED and isinstance(record.get("final"), dict)
    )


def _is_failures(records: Any) -> bool:
    return isinstance(records, list) and all(
        isinstance(record, dict) and {"why", "at", "died"} <= record.keys() for record in records
    )


IS_VALID: dict[str, Callable[[Any], bool]] = {
    "outcomes": _is_outcome,
    "early": lambda record: isinstance(record, dict) and "step" in record,
    "failures": _is_failures,
}


def prepare_study(
    file: Path, out: Path, retry_failed: bool = False, on_message: OnMessage = no_message
) -> Study:
    """Create the study folder of a study file, or continue the one in `out`; nothing is trained."""
    plan = read_study(file)
    check_cells(plan)
    study = Study.prepare(out, plan, on_message)
    if retry_failed:
        for name in study.forget_failed():
            on_message(f"{name}: will be tried again")
    return study


def check_cells(plan: StudyPlan) -> None:
    """Refuse models and groups that do not exist, for all cells before any is trained."""
    from statetrace.groups import group
    from statetrace.models.from_recipe import model_spec

    if plan.settings.work != "train":
        return
    checked = set()
    for cell in plan.cells:
        recipe = Recipe.of(dict(cell.recipe))
        key = (recipe.model.__class__, str(recipe.model), recipe.task.group, recipe.task.notation)
        if key in checked:
            continue
        checked.add(key)
        try:
            model_spec(recipe)
            group(recipe.task.group, recipe.task.notation)
        except StatetraceError as error:
            raise StatetraceError(f"cell '{cell.name}': {error}") from None
