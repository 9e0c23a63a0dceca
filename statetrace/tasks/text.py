"""The bytes of a text file as documents (numpy only).

A byte is a token, so any file in any language works. The last tenth of the file is held out.

Cost: the file in memory.
Caveat: a run that is resumed in this stage reads the file again; it must not have changed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from statetrace.errors import StatetraceError

BYTES = 256
HELD_OUT = 0.1


def read_bytes(path: str, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a file for training and held out, [n] each, uint8; windows of `length` bytes can
    be cut from both."""
    try:
        data = np.frombuffer(Path(path).expanduser().read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise StatetraceError(
            f"file '{path}' cannot be read ({error.strerror}); give a text file"
        ) from None
    cut = len(data) - max(length, round(len(data) * HELD_OUT))
    if cut < length:
        raise StatetraceError(
            f"file '{path}' has only {len(data):,} bytes; documents of {length} need at least "
            f"{2 * length:,}, and many more to be useful"
        )
    return data[:cut], data[cut:]


def windows(data: np.ndarray, rng: np.random.Generator, n: int, length: int) -> np.ndarray:
    """`n` random pieces of `length` bytes, [n, length]."""
    starts = rng.integers(0, len(data) - length + 1, size=n)
    return data[starts[:, None] + np.arange(length)]
