"""Which lengths lenses look at where nobody names them. Needs no torch."""

from __future__ import annotations

from statetrace.errors import StatetraceError

SHORTEST = 5
"""Of those with probes of their own; the paper's."""


def usual_lengths(longest: int) -> tuple[int, ...]:
    """For depth: 2, 3, 4, 6, 8, 12, 16, ... and the longest one."""
    powers = range(1, max(2, longest.bit_length()))
    both = {2**k for k in powers} | {3 * 2**k for k in range(longest.bit_length())}
    return tuple(sorted({n for n in both if n < longest} | {max(longest, 2)}))


def choose_lengths(longest: int, lengths: tuple[int, ...] | None, most: int) -> tuple[int, ...]:
    """For probes: ascending, the whole length last; None for at most `most` of them from 5 on."""
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
