"""Work in pieces that shrink when memory runs out."""

import pytest
import torch

from statetrace.models.device import free_bytes
from statetrace.models.memory import in_pieces, is_out_of_memory

OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ..."),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_pieces_halve_until_they_fit(error):
    assert is_out_of_memory(error)
    tried: list[tuple[int, int]] = []

    def work(start: int, stop: int) -> None:
        tried.append((start, stop))
        if stop - start > 3:
            raise error

    assert in_pieces(10, 8, work) == 2
    assert tried == [(0, 8), (0, 4), (0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]


def test_a_real_allocation_that_cannot_succeed_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def test_a_piece_of_one_gives_up():
    def work(start: int, stop: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        in_pieces(4, 4, work)


def test_other_errors_are_not_swallowed():
    def work(start: int, stop: int) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        in_pieces(4, 4, work)


def test_pieces_as_small_as_asked_for():
    done: list[int] = []
    assert in_pieces(9, 4, lambda a, b: done.append(b - a), fit=lambda start: start) == 4
    assert done == [1, 1, 2, 4, 1]  # never less than one, never more than 4


def test_free_memory_is_less_than_there_is():
    free = free_bytes(torch.device("cpu"))
    assert 2**20 < free < 2**50
