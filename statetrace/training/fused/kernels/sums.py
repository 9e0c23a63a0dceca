"""Sums over rows and of partial sums, into gradients of biases and norms; for one layer or several
at once, since a launch takes longer than the work. Also how loops over rows are divided."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST = 6
"""Vectors of one layer that are summed together."""

PROGRAMS = 528
"""Programs that share the rows of a backward pass: four for each processor of the largest GPUs."""

STAGES = 4
"""Tiles of a loop over rows that are loaded ahead."""


@triton.jit
def _finish_sums_kernel(
    sums, t0, t1, t2, t3, t4, t5, s0, s1, s2, s3, s4, s5,
    programs, vectors, width, stride, seeds, apart,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One of the vectors t of a layer: the sum of vector number s over programs."""
    which = tl.program_id(1)
    layer = tl.program_id(2) // seeds
    seed = tl.program_id(2) % seeds
    target = t0
    source = s0
    if which == 1:
        target = t1
        source = s1
    if which == 2:
        target = t2
        source = s2
    if which == 3:
        target = t3
        source = s3
    if which == 4:
        target = t4
        source = s4
    if which == 5:
        target = t5
        source = s5
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    valid = column < width
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(0, programs, ROWS):
        program = start + tl.arange(0, ROWS)
        row = (tl.program_id(2).to(tl.int64) * programs + program) * vectors + source
        inside = (program < programs)[:, None] & valid[None, :]
        total += tl.load(sums + row[:, None] * width + column[None, :], mask=inside, other=0.0)
    at = layer.to(tl.int64) * apart + seed.to(tl.int64) * stride + column
    tl.store(target + at, tl.sum(total, axis=0), mask=valid)


def finish_sums(sums: Tensor, targets: Sequence[Sequence[Tensor]], sources: Sequence[int]) -> None:
    """Partial sums [layers, S, programs, vectors, D]: vector `source` of every layer, summed over
    programs, into that layer's target [S, D]. Targets of layers lie at equal distances."""
    layers, seeds, programs, vectors, width = sums.shape
    first = targets[0]
    stride, apart = first[0].stride(0), distance(targets)
    assert apart is not None
    assert all(target.stride() == (stride, 1) for target in first)
    more = MOST - len(first)
    _finish_sums_kernel[triton.cdiv(width, 32), len(first), layers * seeds](
        sums, *first, *[first[0]] * more, *sources, *[0] * more, programs, vectors, width, stride,
        seeds, apart,
        ROWS=128, COLUMNS=32, num_warps=4,
    )  # fmt: skip


@triton.jit
def _columns_kernel(
    x, zero_columns, sums, rows, width, apart, programs,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Sum some rows of one matrix. The `zero_columns` sum to zero and are not read."""
    program = tl.program_id(0)
    which = tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    nonzero = tl.load(zero_columns + column, mask=column < width, other=1) == 0
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for tile in tl.range(program, tl.cdiv(rows, ROWS), programs, num_stages=STAGES):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & nonzero[None, :]
        at = which * apart + row.to(tl.int64)[:, None] * width + column[None, :]
        total += tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    out = sums + (which * programs + program) * width + column
    tl.store(out, tl.sum(total, axis=0), mask=column < width)


def columns(x: Tensor, zero_columns: Tensor, out: Tensor) -> None:
    """As `plain.columns`, for matrices at equal distances."""
    matrices, rows, width = x.shape
    assert x.stride()[1:] == (width, 1)
    blocks = triton.cdiv(width, 64)
    programs = max(1, min(triton.cdiv(rows, 64), 4 * PROGRAMS // (matrices * blocks)))
    sums = torch.empty(matrices, programs, width, device=x.device)
    _columns_kernel[programs, blocks, matrices](
        x, zero_columns, sums, rows, width, x.stride(0), programs,
        ROWS=64, COLUMNS=64, STAGES=STAGES, num_warps=4,
    )  # fmt: skip
    torch.sum(sums, dim=1, out=out)


def distance(targets: Sequence[Sequence[Tensor]]) -> int | None:
    """Elements from a layer's targets to the next layer's; None if distances differ."""
    starts = [[target.data_ptr() for target in layer] for layer in targets]
    steps = {
        b - a for one, two in itertools.pairwise(starts) for a, b in zip(one, two, strict=True)
    }
    if len(steps) > 1:
        return None
    return steps.pop() // targets[0][0].element_size() if steps else 0


class ImmediateSums:
    """Sums that are finished at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def allocate(self, *shape: int) -> Tensor:
        self._sums = torch.empty(shape, device=self._device)
        return self._sums

    def add_to(self, targets: Sequence[Tensor], sources: Sequence[int]) -> None:
        finish_sums(self._sums[None], [targets], sources)
