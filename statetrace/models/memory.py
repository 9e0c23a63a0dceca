"""Work in pieces that fit into memory.

Purpose: a piece that runs out of memory is halved and tried again, so that a wrong estimate costs
time but not the result.
Caveat: on a CPU the system may kill a process before an allocation fails, so estimates of the first
piece must be conservative.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

# glibc gives large freed blocks back to the system, and getting new ones takes a quarter of a
# forward pass. It keeps them once a block of almost 32 MiB was freed, which is never written to
# (man mallopt, M_MMAP_THRESHOLD).
torch.empty(2**25 - 2**12, dtype=torch.uint8)

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""Messages of RuntimeErrors that mean out of memory; CPU allocators have no exception type."""


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def in_pieces(
    total: int, size: int, work: Callable[[int, int], None], fit: Callable[[int], int] | None = None
) -> int:
    """Call work(start, stop) until 0..total is covered, in pieces of at most `size`.

    A piece that runs out of memory is halved, and so are all pieces after it; a piece of size one
    raises. `fit(start)` may limit the piece at `start` further. Returns the final size.
    """
    start = 0
    while start < total:
        n = max(1, min(size, total - start, size if fit is None else fit(start)))
        if _succeeds(work, start, start + n):
            start += n
        else:
            size = n // 2
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()
    return size


def _succeeds(work: Callable[[int, int], None], start: int, stop: int) -> bool:
    # A separate function, because the exception keeps the tensors of the failed piece alive.
    try:
        work(start, stop)
    except (RuntimeError, MemoryError) as error:
        if stop - start == 1 or not is_out_of_memory(error):
            raise
        return False
    return True
