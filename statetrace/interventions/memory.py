"""How much fits into memory, and what to do when less did.

Purpose: work is cut into pieces sized by what is free; a piece that runs out of memory is cut in
half and tried again, so that a wrong guess costs time and not the result.
Caveat: on a CPU the system may end a process before an allocation fails; the guess is therefore
careful, and halving is a second line there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""What a RuntimeError says when memory ran out; CPU allocators have no exception of their own."""


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def in_pieces(
    total: int,
    size: int,
    work: Callable[[int, int], None],
    fit: Callable[[int], int] | None = None,
) -> int:
    """Call work(start, stop) until 0..total is covered, in pieces of at most `size`.

    A piece that runs out of memory is tried again at half its size, and so are all after it; only
    a piece of one gives up. `fit(start)` may ask for a smaller piece at `start`. Returns the size
    that was left in the end, to begin with next time.
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
    # A function of its own: the exception keeps the failed piece's tensors alive until it is gone.
    try:
        work(start, stop)
    except (RuntimeError, MemoryError) as error:
        if stop - start == 1 or not is_out_of_memory(error):
            raise
        return False
    return True
