"""TOML files that extend one another: `extends = "s3-gpt2.toml"`, relative to the file, or a
bundled one by its name: `extends = "paper/s3-gpt2"`.

A file that extends another inherits all of its tables. Tables are merged key by key; anything else,
lists such as [[stage]] included, replaces the inherited value. run.json and study.json record the
result, so neither file is needed again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from statetrace.config.bundled import locate, suggestion
from statetrace.errors import StatetraceError
from statetrace.files import read_toml

EXTENDS = "extends"
MOST_EXTENDED = 50

Tables = dict[str, Any]
ResolvePaths = Callable[[Tables, Path], Tables]
"""(tables, their file) -> the tables, with paths relative to the file made absolute."""


def read_tables(
    path: Path, what: str, resolve_paths: ResolvePaths = lambda tables, path: tables
) -> Tables:
    """The tables of a `what` (recipe, study), a file or a bundled one, with those it extends."""
    return _read(locate(path), what, resolve_paths, ())


def _read(path: Path, what: str, resolve: ResolvePaths, extending: tuple[Path, ...]) -> Tables:
    """`extending` is the chain of files that led here, the first one first."""
    by = f", which {what} '{extending[-1]}' extends" if extending else ""
    if path.resolve() in [file.resolve() for file in extending]:
        chain = " -> ".join(f"'{file}'" for file in (*extending, path))
        raise StatetraceError(f"{what}s extend one another in a circle: {chain}")
    if len(extending) > MOST_EXTENDED:
        raise StatetraceError(
            f"{what} '{extending[0]}' extends more than {MOST_EXTENDED} others, one after another"
        )
    try:
        tables = resolve(read_toml(path), path)
    except FileNotFoundError:
        raise StatetraceError(f"there is no {what} '{path}'{by}; {suggestion(path)}") from None
    except OSError as error:
        raise StatetraceError(f"{what} '{path}'{by} cannot be read: {error}") from None
    except StatetraceError:
        raise
    except ValueError as error:
        raise StatetraceError(f"{what} '{path}'{by} is not valid TOML: {error}") from None
    extended = tables.pop(EXTENDS, None)
    if extended is None:
        return tables
    if not isinstance(extended, str):
        raise StatetraceError(
            f"{EXTENDS} {extended!r} in {what} '{path}' is not a path; give that of one {what}"
        )
    return _merge(_read(locate(extended, path.parent), what, resolve, (*extending, path)), tables)


def _merge(inherited: Tables, own: Tables) -> Tables:
    merged = dict(inherited)
    for name, value in own.items():
        old = merged.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[name] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged
