"""Finished parts of a lens, kept while it runs, so that an interrupted lens continues.

A lens wraps its longer parts: `part("length 5", compute)` returns what is kept under that name, or
computes it and keeps it. Nothing is kept outside of `keeping`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from statetrace.files import digest, read_json, replacing, write_json

WORTH = 0.5
"""Seconds of computation from which a part is kept."""

T = TypeVar("T")


@dataclass(frozen=True)
class Parts:
    """The parts of one lens, in a folder or, without one, in memory. A part is a dictionary of
    arrays, or plain JSON values."""

    folder: Path | None = None
    _memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> Any:
        """None for a part that is missing or damaged."""
        if self.folder is None:
            return self._memory.get(name)
        arrays, about = self._files(name)
        with contextlib.suppress(OSError, SafetensorError, ValueError, KeyError):
            content = read_json(about)
            if "value" in content:
                return content["value"]
            if content["arrays"] == digest(arrays):
                return load_file(arrays)
        return None

    def put(self, name: str, value: Any) -> None:
        if self.folder is None:
            self._memory[name] = value
            return
        arrays, about = self._files(name)
        if not isinstance(value, dict):
            write_json(about, {"value": value})
            return
        with replacing(arrays) as temporary:
            save_file({key: np.ascontiguousarray(part) for key, part in value.items()}, temporary)
        write_json(about, {"arrays": digest(arrays)})

    def _files(self, name: str) -> tuple[Path, Path]:
        assert self.folder is not None
        return self.folder / f"{name}.safetensors", self.folder / f"{name}.json"


_parts: ContextVar[Parts | None] = ContextVar("parts", default=None)


@contextlib.contextmanager
def keeping(parts: Parts) -> Iterator[None]:
    """Keep the parts of the lens that runs inside."""
    token = _parts.set(parts)
    try:
        yield
    finally:
        _parts.reset(token)


def part(name: str, compute: Callable[[], T]) -> T:
    """The part of that name, computed unless it is kept already."""
    parts = _parts.get()
    if parts is None:
        return compute()
    value: T | None = parts.get(name)
    if value is None:
        start = time.perf_counter()
        value = compute()
        if time.perf_counter() - start >= WORTH:
            parts.put(name, value)
    return value
