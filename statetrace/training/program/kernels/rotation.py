"""Queries and keys rotated by their position, in place: inside of attention it would cost more,
since a tile has no addresses to swap by."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.program.operations import Heads


@triton.jit
def _turn_kernel(
    x, cosine, sine, sums, length, heads, width, part, step, row_width, direction,
    SUM: tl.constexpr, LENGTH: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Queries (or keys) of one sequence rotated in place, some heads at a time; back with direction
    -1, and then their sums over the positions are taken too."""
    line = tl.program_id(0)
    index = tl.arange(0, HEADS * HALF)
    head = tl.program_id(1) * HEADS + index // HALF
    dim = index % HALF
    position = tl.arange(0, LENGTH)
    inside = (position < length)[:, None] & (head < heads)[None, :]
    turn = position[:, None] * width + dim[None, :]
    c = tl.load(cosine + turn, mask=inside, other=1.0)
    s = tl.load(sine + turn + HALF, mask=inside, other=0.0) * direction
    start = head * step + tl.program_id(2) * part + dim
    at = x + (line.to(tl.int64) * length + position)[:, None] * row_width + start[None, :]
    a = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    low = a * c - b * s
    high = b * c + a * s
    tl.store(at, low.to(x.dtype.element_ty), mask=inside)
    tl.store(at + HALF, high.to(x.dtype.element_ty), mask=inside)
    if SUM:
        out = sums + line.to(tl.int64) * row_width + start
        tl.store(out, tl.sum(low, axis=0), mask=head < heads)
        tl.store(out + HALF, tl.sum(high, axis=0), mask=head < heads)


def turn(x: Tensor, heads: Heads, direction: int, sums: Tensor | None = None) -> None:
    if heads.rotation is None:
        return
    together = min(4, triton.next_power_of_2(heads.heads))
    grid = (len(x) * heads.batch, triton.cdiv(heads.heads, together), 2)
    _turn_kernel[grid](
        x,
        *heads.rotation,
        x if sums is None else sums,
        heads.length,
        heads.heads,
        heads.width,
        *heads.strides,
        x.shape[-1],
        direction,
        SUM=sums is not None,
        LENGTH=triton.next_power_of_2(heads.length),
        HEADS=together,
        HALF=heads.rotated // 2,
        num_warps=4,
    )
