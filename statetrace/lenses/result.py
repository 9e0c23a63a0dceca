"""What a lens returns: numbers with their spread, in a form that saves itself and loads again.

RUN/lenses/NAME.parquet       the tidy table: one number (and its spread) per row
RUN/lenses/NAME.safetensors   arrays too large or too square for a table
RUN/lenses/NAME.json          the spec that was used, single numbers, and sentences for people
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from statetrace.errors import StatetraceError
from statetrace.runs import write_json

if TYPE_CHECKING:
    import pandas

Progress = Callable[[float], None]
"""Called by a lens now and then with the share of its work that is done, 0 to 1."""


def no_progress(share: float) -> None:
    """For callers who do not watch."""


NAMES = ("generalization", "probing", "patching", "depth", "attention", "geometry", "dynamics")
"""All lenses, in the order in which they are shown; the registry has what they do."""

WHOLE = frozenset({"generalization", "dynamics"})
"""Those that look at all lengths, however short the others are told to look."""


@dataclass(frozen=True, repr=False)
class LensResult:
    """The result of one lens on one model.

    Attributes:
        lens: its name in the registry.
        spec: the lens's settings, as plain JSON values.
        columns: the tidy table, column name -> values, all of one length.
        arrays: named arrays.
        summary: single numbers (or short lists) that a verdict or a person looks at first.
        notes: sentences a person should read beside the numbers ("12 of 200 pairs left out: ...").
        subject: which model it was, for instance {"step": 500, "checkpoint": "step-500"}.
    """

    lens: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    subject: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> pa.Table:
        return pa.table({name: list(values) for name, values in self.columns.items()})

    def rows(self) -> list[dict[str, Any]]:
        """The tidy table row by row."""
        names = list(self.columns)
        return [
            dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """The tidy table as a data frame."""
        import pandas

        return pandas.DataFrame({name: list(values) for name, values in self.columns.items()})

    def __repr__(self) -> str:
        rows = len(next(iter(self.columns.values()), ()))
        parts = [f"{rows:,} rows ({', '.join(self.columns)})", f"{len(self.arrays)} arrays"]
        return f"LensResult({self.lens}: {', '.join(parts)}; summary: {', '.join(self.summary)})"

    def save(self, folder: Path) -> None:
        """Write the three files into `folder` (RUN/lenses), replacing an earlier result."""
        folder.mkdir(parents=True, exist_ok=True)
        summary = folder / f"{self.lens}.json"
        summary.unlink(missing_ok=True)  # it comes last: without it the result counts as not there
        table, arrays = (folder / f".{self.lens}.{kind}" for kind in ("parquet", "safetensors"))
        pq.write_table(self.table(), table)
        save_file({name: np.ascontiguousarray(a) for name, a in self.arrays.items()}, arrays)
        for file in (table, arrays):
            file.replace(file.with_name(file.name[1:]))
        about = {
            "lens": self.lens,
            "subject": dict(self.subject),
            "spec": dict(self.spec),
            "summary": dict(self.summary),
            "notes": list(self.notes),
        }
        write_json(summary, about)

    @staticmethod
    def load(folder: Path, lens: str) -> LensResult:
        file = folder / f"{lens}.json"
        if not file.is_file():
            raise StatetraceError(
                f"'{folder}' has no result of the lens '{lens}'; `{command(folder, lens)}` makes it"
            )
        about = _read(file, _about)
        table = _read(file.with_suffix(".parquet"), pq.read_table)
        return LensResult(
            lens=lens,
            spec=about["spec"],
            columns=table.to_pydict(),
            arrays=_read(file.with_suffix(".safetensors"), load_file),
            summary=about["summary"],
            notes=tuple(about["notes"]),
            subject=about["subject"],
        )


def command(folder: Path, lens: str) -> str:
    """What makes a lens's result in a folder: RUN/lenses, or one below it (step-N, length-N)."""
    parts = folder.parts
    at = len(parts) - 1 - parts[::-1].index("lenses") if "lenses" in parts else len(parts) - 1
    words = ["statetrace", "analyze", str(Path(*parts[:at])), "--only", lens]
    for part in parts[at + 1 :]:
        kind, _, number = part.partition("-")
        words += {"step": ["--checkpoint", number], "length": ["--at-length", number]}.get(kind, [])
    return shlex.join(words)


def _about(file: Path) -> dict[str, Any]:
    """The summary's file, checked as far as everyone relies on it."""
    found = json.loads(file.read_text())
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    for name, kind in _PARTS.items():
        if not isinstance(found.get(name), kind):
            raise ValueError(f"it has no '{name}'")
    return found


_PARTS = {"spec": dict, "summary": dict, "notes": list, "subject": dict}

T = TypeVar("T")


def _read(file: Path, read: Callable[[Path], T]) -> T:
    """What is in one of a result's files; what is wrong with it in one sentence."""
    again = f"`{command(file.parent, file.stem)}` makes it anew"
    if not file.is_file():
        raise StatetraceError(f"'{file}' is missing; {again}")
    try:
        return read(file)
    except Exception as error:  # json, arrow and safetensors each have errors of their own
        first = str(error).strip().split("\n")[0].split(". ")[0] or type(error).__name__
    raise StatetraceError(f"'{file}' is damaged ({first}); {again}")
