"""Dropout masks as a function of (key, salt, index), equal to those of `plain.keep_mask`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.operations import Dropout


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def keep_mask(index, keys, seed, salt, bound):
    """`plain.keep_mask` without its scale, element by element."""
    key = _mix((tl.load(keys + seed) + salt).to(tl.uint32))
    return _mix(_mix(index.to(tl.uint32)) + key) >= bound.to(tl.uint32)


@triton.jit
def _drop_kernel(x, out, keys, salt, bound, scale, size, BLOCK: tl.constexpr):
    seed = tl.program_id(1)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    value = tl.load(x + seed.to(tl.int64) * size + index, mask=inside, other=0.0)
    value = tl.where(keep_mask(index, keys, seed, salt, bound), value * scale, 0.0)
    tl.store(out + seed.to(tl.int64) * size + index, value, mask=inside)


def dropped(values: Tensor, drop: Dropout | None) -> Tensor:
    if drop is None:
        return values
    out, size = torch.empty_like(values), values[0].numel()
    grid = (triton.cdiv(size, 1024), len(values))
    _drop_kernel[grid](
        values, out, drop.keys, drop.spread, drop.bound, drop.scale, size, BLOCK=1024
    )
    return out
