"""Transposed copies of matrices."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _transpose_kernel(x, out, rows, columns, apart, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    which = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = which * apart + row[:, None] * columns + column[None, :]
    value = tl.trans(tl.load(x + at, mask=inside))
    inside = (column < columns)[:, None] & (row < rows)[None, :]
    at = which * rows * columns + column[:, None] * rows + row[None, :]
    tl.store(out + at, value, mask=inside)


def transposed(x: Tensor) -> Tensor:
    """As `plain.transposed`, of matrices at equal distances."""
    matrices, rows, columns = x.shape
    assert x.stride()[1:] == (columns, 1)
    out = x.new_empty(matrices, columns, rows)
    grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64), matrices)
    _transpose_kernel[grid](x, out, rows, columns, x.stride(0), ROWS=64, COLUMNS=64, num_warps=4)
    return out
