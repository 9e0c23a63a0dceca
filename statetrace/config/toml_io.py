"""TOML files that build on one another: `extends = "s3-gpt2.toml"`, relative to the file.

A file that extends another has all of its tables and says how it differs: tables are merged, key by
key; anything else, lists such as [[stage]] too, replaces what was there. What is recorded in
run.json and study.json is the outcome, so it needs neither file again.

Cost: none; needs no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError

EXTENDS = "extends"

Tables = dict[str, Any]
Settle = Callable[[Tables, Path], Tables]
"""(tables, their file) -> the same, with paths that are meant relative to the file made whole."""


def as_they_are(tables: Tables, path: Path) -> Tables:
    return tables


def read_tables(path: Path, what: str, settle: Settle = as_they_are) -> Tables:
    """The tables of a `what` (recipe, study), those it extends included."""
    return _read(path, what, settle, ())


def _read(path: Path, what: str, settle: Settle, before: tuple[Path, ...]) -> Tables:
    """`before` are the files that led here, the first one first."""
    by = f", which {what} '{before[-1]}' extends" if before else ""
    if path.resolve() in [file.resolve() for file in before]:
        chain = " -> ".join(f"'{file}'" for file in (*before, path))
        raise StatetraceError(f"{what}s extend one another in a circle: {chain}")
    try:
        tables = settle(tomllib.loads(path.read_text()), path)
    except FileNotFoundError:
        raise StatetraceError(f"there is no {what} '{path}'{by}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StatetraceError(f"{what} '{path}'{by} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise StatetraceError(f"{what} '{path}'{by} is not valid TOML: {error}") from None
    extended = tables.pop(EXTENDS, None)
    if extended is None:
        return tables
    if not isinstance(extended, str):
        raise StatetraceError(
            f"{EXTENDS} {extended!r} in {what} '{path}' is no file; give the path of one {what}"
        )
    return _merged(_read(path.parent / extended, what, settle, (*before, path)), tables)


def _merged(under: Tables, over: Tables) -> Tables:
    both = dict(under)
    for name, value in over.items():
        old = both.get(name)
        inner = isinstance(old, dict) and isinstance(value, dict)
        both[name] = _merged(old, value) if inner else value  # type: ignore[arg-type]
    return both
