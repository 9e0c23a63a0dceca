"""The one place where JSON and TOML of users and run folders are read, and where files are written.

A file may be truncated, replaced by another or written by someone hostile. Every reason not to use
one is a ValueError in a few words, for callers to put into their sentence; a missing file or one
that may not be read stays an OSError.

Files are replaced whole (written under another name, flushed, renamed), so a killed process leaves
either the old or the new one. JSON objects are written with a checksum of their content under the
key "content_sha256", which reading checks and removes; files of other programs and of older
versions have none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError

MOST = 64 * 2**20
"""Bytes of the largest file that is read; logs and weights have readers of their own."""

SEAL = "content_sha256"


class WriteError(StatetraceError):
    """A file could not be written: the disk is full, read-only or gone."""


def read_json(file: Path, kind: type = dict, most: int = MOST) -> Any:
    """The content of a JSON file, which must be an object (`kind` dict) or a list."""
    value = parse_json(_text(file, most), kind)
    if isinstance(value, dict) and isinstance(value.get(SEAL), str):
        content = {key: part for key, part in value.items() if key != SEAL}
        if value[SEAL] != seal(content):
            raise ValueError(
                f'its content does not match its checksum; if you edited it, delete "{SEAL}"'
            )
        return content
    return value


def parse_json(text: str | bytes, kind: type = dict) -> Any:
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, kind):
        raise ValueError("not a JSON object" if kind is dict else f"not a JSON {kind.__name__}")
    escape = rb"\ud" if isinstance(text, bytes) else r"\ud"
    if escape in text.lower():  # type: ignore[operator]
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair") from None
    return value


def read_toml(file: Path, most: int = MOST) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(file, most))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _text(file: Path, most: int) -> str:
    about = file.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("not a file")
    if about.st_size > most:
        raise ValueError(f"{about.st_size:,} bytes are more than the {most:,} that are read")
    return file.read_text(encoding="utf-8")


def seal(content: Any) -> str:
    """The checksum of JSON content, whatever its layout in a file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON; an object with its checksum."""
    content = json.loads(json.dumps(value))  # as it will be read: keys become text, tuples lists
    if isinstance(content, dict):
        content[SEAL] = seal({key: part for key, part in content.items() if key != SEAL})
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write to; the file then replaces `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            flush(temporary)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one sentence."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__name__ != "SafetensorError":
            raise
        why = getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
        raise WriteError(
            f"cannot write '{path}' ({why}); free some space there, or choose another folder"
        ) from error
