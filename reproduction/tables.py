"""Reads results/: tables of studies, lens results of single models, JSON files.

    results/STUDY/results.csv      a row per trained model
    results/NAME/LENS.csv, .json   a lens's table, and its settings and summary; NAME may be
                                   zoo/NAME or STUDY/lenses/CELL

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
        """Rows with numbers as numbers and empty fields as None."""
        return self._once(path, _rows)

    def json(self, path: str) -> Any:
        return self._once(path, json.loads)

    def json_lines(self, path: str) -> list[Row]:
        return self._once(path, lambda text: [json.loads(line) for line in text.splitlines()])

    def studies(self) -> list[str]:
        """Folders with a table of trained models."""
        return sorted(path.parent.name for path in self.folder.glob("*/results.csv"))

    def single_models(self) -> list[str]:
        """Folders with lens results of one model that belongs to no study."""
        files = [*self.folder.glob("*/run.json"), *self.folder.glob("zoo/*/run.json")]
        return sorted(file.parent.relative_to(self.folder).as_posix() for file in files)

    def lens_folders(self) -> list[str]:
        """Folders with lens results of one model, those of studies' models included."""
        cells = sorted(self.folder.glob("*/lenses/*"))
        return self.single_models() + [cell.relative_to(self.folder).as_posix() for cell in cells]

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


def _rows(text: str) -> list[Row]:
    reader = csv.DictReader(text.splitlines())
    return [{name: _value(text) for name, text in row.items()} for row in reader]


def _value(text: str | None) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
