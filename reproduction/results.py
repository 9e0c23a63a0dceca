"""What lies in results/, read as plain values: studies, lens results, measures of models.

    results/STUDY/results.csv      a row per cell (studies/table.py)
    results/NAME/LENS.csv          what a lens saw of one model (keep.py; NAME may be zoo/NAME)
    results/calibration/*.jsonl    a line per model

Cost: each file is read once. Needs no torch.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError

Row = dict[str, Any]


class Missing(StatetraceError):
    """There is no such result, so what asks for it has not been measured."""


@dataclass(frozen=True)
class Results:
    """The folder `root` of the project, whose results/ is read.

    Paths are given and returned as from `root`, as the page links to them.
    """

    root: Path
    _read: dict[str, Any] = field(default_factory=dict, repr=False)

    def exists(self, path: str) -> bool:
        return (self.root / path).is_file()

    def table(self, path: str) -> list[Row]:
        """A CSV's rows; numbers as numbers, empty fields as None."""
        return self._once(path, _table)

    def json(self, path: str) -> Any:
        return self._once(path, lambda text: json.loads(text))

    def lines(self, path: str) -> list[Row]:
        """A JSON value per line."""
        return self._once(path, lambda text: [json.loads(line) for line in text.splitlines()])

    def study(self, name: str) -> list[Row]:
        return self.table(study_file(name))

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders of results/ that begin so, in order."""
        return sorted(path.name for path in (self.root / "results").glob(f"{prefix}*"))

    def present(self, studies: Iterable[str]) -> tuple[str, ...]:
        """Those of the studies that have results; a study may still be waiting for its first."""
        return tuple(name for name in studies if self.exists(study_file(name)))

    def _once(self, path: str, parse: Any) -> Any:
        if path not in self._read:
            file = self.root / path
            if not file.is_file():
                raise Missing(f"'{path}' is missing: a claim is measured from it")
            try:
                self._read[path] = parse(file.read_text())
            except (ValueError, csv.Error) as error:
                raise StatetraceError(f"'{path}' cannot be read: {error}") from None
        return self._read[path]


def study_file(name: str) -> str:
    return f"results/{name}/results.csv"


def lens_file(model: str, lens: str, kind: str = "csv") -> str:
    return f"results/{model}/{lens}.{kind}"


def lens_files(model: str, *files: str) -> tuple[str, ...]:
    """Several of a model's files; a name without an ending is a table."""
    named = (file if "." in file else f"{file}.csv" for file in files)
    return tuple(f"results/{model}/{file}" for file in named)


def _table(text: str) -> list[Row]:
    rows = csv.DictReader(text.splitlines())
    return [{name: _value(field) for name, field in row.items()} for row in rows]


def _value(field: str | None) -> Any:
    if not field:
        return None
    for kind in (int, float):
        try:
            return kind(field)
        except ValueError:
            continue
    return field
