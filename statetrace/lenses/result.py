"""The result of a lens: numbers with their spread, which can be saved and loaded.

RUN/lenses/NAME.parquet       the tidy table: one number (and its spread) per row
RUN/lenses/NAME.safetensors   arrays that do not fit a table
RUN/lenses/NAME.json          the lens settings, a summary of single numbers, and notes
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from statetrace.errors import StatetraceError
from statetrace.files import digest, read_json, replacing, write_json

if TYPE_CHECKING:
    import pandas

Progress = Callable[[float], None]
"""Called by a lens with the share of its work that is done, 0 to 1."""


def no_progress(share: float) -> None:
    """Ignore progress."""


def part_of(progress: Progress, begin: float, end: float) -> Progress:
    """For a part of the work: its progress as that of the whole, from `begin` to `end`."""
    return lambda share: progress(begin + share * (end - begin))


@dataclass(frozen=True, repr=False)
class LensResult:
    """The result of one lens on one model.

    Attributes:
        lens: its name in the registry.
        spec: the settings of the lens, as plain JSON values.
        columns: the tidy table, column name -> values, all of equal length.
        arrays: named arrays.
        summary: the main numbers (or short lists).
        notes: caveats to read with the numbers ("12 of 200 pairs were excluded: ...").
        subject: which checkpoint was analyzed, e.g. {"step": 500, "checkpoint": "step-500"}.
    """

    lens: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    subject: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> pa.Table:
        return pa.table({name: _array(values) for name, values in self.columns.items()})

    def rows(self, **selection: Any) -> list[dict[str, Any]]:
        """The tidy table row by row; with a selection, such as `rows(split="all")`, the rows that
        match it."""
        values = zip(*self.columns.values(), strict=True)
        rows = (dict(zip(self.columns, row, strict=True)) for row in values)
        return [row for row in rows if selection.items() <= row.items()]

    @cached_property
    def _arrow(self) -> pa.Table:
        return self.table()

    def grid(self, value: str = "mean", **selection: Any) -> np.ndarray:
        """A heat map [sites, positions] of `value` over the rows that match `selection`, for
        instance `grid(where="prefix", what="substitution", kind="resid", metric="nld",
        split="all")` [layers + 1, T]. Cells without a number are NaN; the array is empty if no row
        matches."""
        return pivot(self._arrow, value, **selection)

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
        summary = folder / f"{self.lens}.json"  # written last: it has checksums of the others
        table, arrays = summary.with_suffix(".parquet"), summary.with_suffix(".safetensors")
        with replacing(table) as temporary:
            pq.write_table(self.table(), temporary)
        with replacing(arrays) as temporary:
            contiguous = {name: np.ascontiguousarray(a) for name, a in self.arrays.items()}
            save_file(contiguous, temporary)
        about = {
            "lens": self.lens,
            "subject": dict(self.subject),
            "spec": dict(self.spec),
            "summary": dict(self.summary),
            "notes": list(self.notes),
            "files": {file.suffix: digest(file) for file in (table, arrays)},
        }
        write_json(summary, about)

    @staticmethod
    def load(folder: Path, lens: str) -> LensResult:
        file = folder / f"{lens}.json"
        if not file.is_file():
            raise StatetraceError(
                f"'{folder}' has no result of the lens '{lens}'; "
                f"`{command(folder, lens)}` computes it"
            )
        about = _read(file, _about)
        table, arrays = (
            _read(file.with_suffix(suffix), read, about.get("files", {}).get(suffix))
            for suffix, read in ((".parquet", _table), (".safetensors", load_file))
        )
        return LensResult(
            lens=lens,
            spec=about["spec"],
            columns=table.to_pydict(),
            arrays=arrays,
            summary=about["summary"],
            notes=tuple(about["notes"]),
            subject=about["subject"],
        )


def folded(lines: Iterable[str]) -> str:
    """For a Python prompt: lines of at most 80 columns."""
    return "\n".join(
        fill(line, 80, subsequent_indent="    ", break_on_hyphens=False) for line in lines
    )


def command(folder: Path, lens: str) -> str:
    """The command that computes a result into RUN/lenses or a folder below it (step-N,
    length-N)."""
    parts = folder.parts
    at = len(parts) - 1 - parts[::-1].index("lenses") if "lenses" in parts else len(parts) - 1
    arguments = ["statetrace", "analyze", str(Path(*parts[:at])), "--only", lens]
    options = {"step": "--checkpoint", "length": "--at-length"}
    for part in parts[at + 1 :]:
        kind, _, number = part.partition("-")
        arguments += [options[kind], number] if kind in options else []
    return shlex.join(arguments)


def pivot(table: pa.Table, value: str, **selection: Any) -> np.ndarray:
    """`LensResult.grid` for a patching table from any source: one row per site (kind, layer and
    head, in the order of the table), one column per position."""
    import pyarrow.compute as pc  # takes 50 ms, and most commands need no grid

    for name, wanted in selection.items():
        column = table[name]
        table = table.filter(pc.is_null(column) if wanted is None else pc.equal(column, wanted))
    sites = list(zip(*(table[name].to_pylist() for name in ("kind", "layer", "head")), strict=True))
    rows = {site: number for number, site in enumerate(dict.fromkeys(sites))}
    positions = table["position"].to_pylist()
    cells = np.full((len(rows), 1 + max(positions, default=-1)), np.nan)
    for site, position, number in zip(sites, positions, table[value].to_pylist(), strict=True):
        cells[rows[site], position] = np.nan if number is None else number
    return cells


def _array(values: Sequence[Any]) -> pa.Array:
    """As `pa.array(values)`, which imports pandas, for half a second."""
    kinds = {type(value) for value in values} - {type(None)}
    content: list[Any]
    if kinds == {str}:
        texts = [b"" if value is None else value.encode() for value in values]
        kind, content = pa.string(), [np.cumsum([0, *map(len, texts)], dtype=np.int32)]
        content.append(b"".join(texts))
    elif kinds and kinds <= {int, float}:
        kind, dtype = (pa.float64(), "<f8") if float in kinds else (pa.int64(), "<i8")
        content = [np.array([0 if value is None else value for value in values], dtype=dtype)]
    else:
        return pa.array(list(values))
    valid = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, *content)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _table(file: Path) -> pa.Table:
    """As `pq.read_table`, which imports pandas."""
    with pq.ParquetFile(file) as parquet:
        return parquet.read()


def _about(file: Path) -> dict[str, Any]:
    """The content of NAME.json, with its required keys checked."""
    content: dict[str, Any] = read_json(file)
    for name, kind in _PARTS.items():
        if not isinstance(content.get(name), kind):
            raise ValueError(f"it has no '{name}'")
    if not isinstance(content.get("files", {}), dict):
        raise ValueError("its checksums are unreadable")
    return content


_PARTS = {"spec": dict, "summary": dict, "notes": list, "subject": dict}


def _read(file: Path, read: Callable[[Path], Any], checksum: str | None = None) -> Any:
    """The content of one file of a result, or an error in one sentence. Results of older versions
    have no checksums."""
    remedy = f"`{command(file.parent, file.stem)}` recomputes it"
    if not file.is_file():
        raise StatetraceError(f"'{file}' is missing; {remedy}")
    try:
        if checksum is not None and digest(file) != checksum:
            raise ValueError("it does not match its checksum")
        return read(file)
    except Exception as error:  # json, arrow and safetensors raise unrelated types
        first = str(error).strip().split("\n")[0].split(". ")[0] or type(error).__name__
    raise StatetraceError(f"'{file}' is damaged ({first}); {remedy}")
