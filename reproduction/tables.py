"""Reads results/: run and study folders as statetrace writes them, and a few tables beside them.

    results/NAME/run.json, lenses/         a model analyzed on its own (also results/zoo/NAME)
    results/STUDY/study.json, outcomes/    a study; cells/CELL/ are run folders

Cost: each file is read once. Needs no torch.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.studies.folder import Study
from statetrace.studies.table import results

Row = dict[str, Any]


class Missing(StatetraceError):
    """A measure needs a table that is not in results/, so it has no number."""


@dataclass(frozen=True)
class Tables:
    """The files below `root`/results; paths are relative to it."""

    root: Path
    _read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        return self.root / "results"

    def exists(self, path: str) -> bool:
        return (self.folder / path).is_file()

    def csv(self, path: str) -> list[Row]:
        """Rows with all values as text; no rows if the file does not exist."""
        if not self.exists(path):
            return []
        return self._once(path, lambda text: list(csv.DictReader(text.splitlines())))

    def json(self, path: str) -> Any:
        return self._once(path, json.loads)

    def json_lines(self, path: str) -> list[Row]:
        """Records; none without the file."""
        if not self.exists(path):
            return []
        return self._once(path, lambda text: [json.loads(line) for line in text.splitlines()])

    def studies(self) -> list[str]:
        return sorted(path.parent.name for path in self.folder.glob("*/study.json"))

    def study(self, name: str) -> Study:
        return Study.existing(self.folder / name)

    def study_rows(self, name: str) -> list[Row]:
        """The table of a study, a row per model."""
        key = f"{name}/"
        if key not in self._read:
            self._read[key] = results(self.study(name))
        return list(self._read[key])

    def single_models(self) -> list[str]:
        """Run folders of models that belong to no study."""
        files = [*self.folder.glob("*/run.json"), *self.folder.glob("zoo/*/run.json")]
        return sorted(file.parent.relative_to(self.folder).as_posix() for file in files)

    def lens_folders(self) -> list[str]:
        """Run folders with lens results, those of studies' models included."""
        cells = sorted(self.folder.glob("*/cells/*/lenses"))
        return self.single_models() + [c.parent.relative_to(self.folder).as_posix() for c in cells]

    def _once(self, path: str, parse: Callable[[str], Any]) -> Any:
        if path not in self._read:
            file = self.folder / path
            if not file.is_file():
                raise Missing(f"'results/{path}' is missing")
            try:
                self._read[path] = parse(file.read_text())
            except (ValueError, csv.Error) as error:
                raise StatetraceError(f"'results/{path}' cannot be read: {error}") from None
        return self._read[path]
