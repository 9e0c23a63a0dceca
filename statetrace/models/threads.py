"""How many CPU threads torch computes with.

On a busy machine two threads can be far slower than one, because each waits for the other to get a
core. Hence `import statetrace` makes waiting threads sleep (OMP_WAIT_POLICY), and the number of
threads is measured. Whoever sets OMP_NUM_THREADS has chosen it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator

import torch

ROUNDS = 5
GAIN = 0.8
"""More threads are used only if the work then takes at most this share of its time."""


@contextlib.contextmanager
def using_threads(number: int | None) -> Iterator[None]:
    """Compute with that many threads; None changes nothing."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)


def fastest_threads(work: Callable[[], object], device: torch.device) -> tuple[int, float]:
    """The number of threads that `work` is fastest with, and its seconds then: 1, or torch's
    default and its halves if they clearly gain. The numbers take turns, so that they meet the same
    load."""
    most = torch.get_num_threads()
    choices = [1]
    if device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        choices = [most]
    while choices[-1] * 2 <= most and choices != [most]:
        choices.append(choices[-1] * 2)
    seconds: dict[int, list[float]] = {number: [] for number in choices}
    work()  # the first call also allocates
    for _ in range(ROUNDS):
        for number in choices:
            with using_threads(number):
                start = time.perf_counter()
                work()
                seconds[number].append(time.perf_counter() - start)
    medians = {number: statistics.median(times) for number, times in seconds.items()}
    best = choices[0]
    for number in choices[1:]:
        best = number if medians[number] <= GAIN * medians[best] else best
    return best, medians[best]
