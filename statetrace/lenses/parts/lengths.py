"""Default lengths of the depth and probing lenses. Needs no torch."""

from __future__ import annotations

from statetrace.errors import StatetraceError

SHORTEST = 5
"""The shortest length with its own probe, as in the paper."""


def usual_lengths(longest: int) -> tuple[int, ...]:
    """Lengths of the depth lens: 2, 3, 4, 6, 8, 12, 16, ... and the longest."""
    powers = range(1, max(2, longest.bit_length()))
    lengths = {2**k for k in powers} | {3 * 2**k for k in range(longest.bit_length())}
    return tuple(sorted({n for n in lengths if n < longest} | {max(longest, 2)}))


def choose_lengths(longest: int, lengths: tuple[int, ...] | None, most: int) -> tuple[int, ...]:
    """Lengths of the probing lens, ascending, the full length last; by default up to `most` lengths
    from 5 on."""
    if lengths is None:
        step = max(1, -(-(longest - SHORTEST + 1) // most))
        return tuple(range(longest, min(SHORTEST, longest) - 1, -step))[::-1]
    for length in lengths:
        if not 1 <= length <= longest:
            raise StatetraceError(
                f"length {length} cannot be probed in sequences of length {longest}; "
                f"use lengths from 1 to {longest}"
            )
    return tuple(sorted({*lengths, longest}))
