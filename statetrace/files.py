"""The one place where JSON and TOML of users and run folders are read, with limits.

A file may be truncated, replaced by another or written by someone hostile. Every reason not to use
one is a ValueError in a few words, for callers to put into their sentence; a missing file or one
that may not be read stays an OSError.
"""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

MOST = 64 * 2**20
"""Bytes of the largest file that is read; logs and weights have readers of their own."""


def read_json(file: Path, kind: type = dict, most: int = MOST) -> Any:
    """The content of a JSON file, which must be an object (`kind` dict) or a list."""
    return parse_json(_text(file, most), kind)


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
