"""Additions to the residual stream and its norms in one pass; and the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.kernels.dropout import keep_mask
from statetrace.training.fused.kernels.sums import PROGRAMS, STAGES, ImmediateSums
from statetrace.training.fused.operations import DeferredSums, Residual
from statetrace.training.fused.plain import Slots

Pair = tuple[Tensor, Tensor]


@triton.jit
def _add_norm_kernel(
    x, d1, c1, d2, c2, w1, b1, w2, b2,
    x_out, n1, n2, mean_out, scale_out,
    keys, salt1, salt2, bound, keep_scale,
    rows, width, w_stride, eps,
    ADDS: tl.constexpr, NORMS: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    valid = column < width
    inside = (row < rows)[:, None] & valid[None, :]
    local = row[:, None] * width + column[None, :]
    at = seed.to(tl.int64) * rows * width + local
    vector = seed.to(tl.int64) * w_stride + column
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADDS > 0:
        more = tl.load(d1 + at, mask=inside, other=0.0).to(tl.float32)
        more += tl.load(c1 + vector, mask=valid, other=0.0)[None, :]
        if DROP:
            more = tl.where(keep_mask(local, keys, seed, salt1, bound), more * keep_scale, 0.0)
        value += more
    if ADDS > 1:
        more = tl.load(d2 + at, mask=inside, other=0.0).to(tl.float32)
        more += tl.load(c2 + vector, mask=valid, other=0.0)[None, :]
        if DROP:
            more = tl.where(keep_mask(local, keys, seed, salt2, bound), more * keep_scale, 0.0)
        value += more
    if ADDS > 0:
        tl.store(x_out + at, value, mask=inside)
    value = tl.where(inside, value, 0.0)
    mean = tl.sum(value, axis=1) / width
    centred = tl.where(inside, value - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / width + eps)
    unit = centred * scale[:, None]
    kind = n1.dtype.element_ty
    weight = tl.load(w1 + vector, mask=valid, other=0.0)
    bias = tl.load(b1 + vector, mask=valid, other=0.0)
    tl.store(n1 + at, (unit * weight[None, :] + bias[None, :]).to(kind), mask=inside)
    if NORMS > 1:
        weight = tl.load(w2 + vector, mask=valid, other=0.0)
        bias = tl.load(b2 + vector, mask=valid, other=0.0)
        tl.store(n2 + at, (unit * weight[None, :] + bias[None, :]).to(kind), mask=inside)
    tl.store(mean_out + seed.to(tl.int64) * rows + row, mean, mask=row < rows)
    tl.store(scale_out + seed.to(tl.int64) * rows + row, scale, mask=row < rows)


def add_norm(
    x: Tensor,
    adds: Sequence[Residual],
    norms: Sequence[Pair],
    eps: float,
    dtype: torch.dtype,
    slots: Slots = (),
) -> tuple[Tensor, list[Tensor], Any]:
    """As `plain.add_norm`."""
    seeds, rows, width = x.shape
    x = x.contiguous()  # a token table is part of a larger buffer
    out = torch.empty_like(x) if adds else x
    normed = [_slot(slots, number, x, dtype) for number in range(len(norms))]
    mean = torch.empty(seeds, rows, device=x.device)
    scale = torch.empty_like(mean)
    first, second = adds[0] if adds else None, adds[1] if len(adds) > 1 else None
    drop = first.drop if first else None
    tile = _tile(width, 4096)
    _add_norm_kernel[triton.cdiv(rows, tile[0]), seeds](
        x, first.delta if first else x, first.bias if first else x, second.delta if second else x,
        second.bias if second else x, *norms[0], *norms[-1], out, normed[0], normed[-1], mean,
        scale, *_drops(adds, x), rows, width, norms[0][0].stride(0), eps,
        ADDS=len(adds), NORMS=len(norms), DROP=drop is not None, ROWS=tile[0], WIDTH=tile[1],
        num_warps=4,
    )  # fmt: skip
    return out, normed, (out, mean, scale)


def _drops(adds: Sequence[Residual], other: Tensor) -> tuple[Any, ...]:
    """(keys, salts of both, bound, scale) as the kernels take them."""
    drops = [add.drop for add in adds]
    if not drops or drops[0] is None:
        return other, 0, 0, 0, 1.0
    salts = [drop.spread for drop in drops if drop is not None]
    return drops[0].keys, salts[0], salts[-1], drops[0].bound, drops[0].scale


def _tile(width: int, elements: int = 1024) -> tuple[int, int]:
    """(rows, columns) of a tile that holds whole rows."""
    columns: int = triton.next_power_of_2(width)
    return max(1, elements // columns), columns


@triton.jit
def _add_norm_back_kernel(
    x, mean_in, scale_in, upstream, g1, g2, w1, w2,
    g_out, delta1, delta2, sums,
    keys, salt1, salt2, bound, keep_scale,
    rows, width, w_stride, programs,
    ADDS: tl.constexpr, NORMS: tl.constexpr, DROP: tl.constexpr, UPSTREAM: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    program = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    valid = column < width
    vector = seed.to(tl.int64) * w_stride + column
    weight1 = tl.load(w1 + vector, mask=valid, other=0.0)
    weight2 = tl.load(w2 + vector, mask=valid, other=0.0)
    zero = tl.zeros([ROWS, WIDTH], dtype=tl.float32)  # reduced once, which takes a barrier
    dw1, db1, dw2, db2, dc1, dc2 = zero, zero, zero, zero, zero, zero
    for tile in tl.range(program, tl.cdiv(rows, ROWS), programs, num_stages=STAGES):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & valid[None, :]
        local = row[:, None] * width + column[None, :]
        at = seed.to(tl.int64) * rows * width + local
        mean = tl.load(mean_in + seed.to(tl.int64) * rows + row, mask=row < rows, other=0.0)
        scale = tl.load(scale_in + seed.to(tl.int64) * rows + row, mask=row < rows, other=0.0)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        unit = tl.where(inside, (value - mean[:, None]) * scale[:, None], 0.0)
        dn = tl.load(g1 + at, mask=inside, other=0.0).to(tl.float32)
        dw1 += dn * unit
        db1 += dn
        dunit = dn * weight1[None, :]
        if NORMS > 1:
            dn = tl.load(g2 + at, mask=inside, other=0.0).to(tl.float32)
            dw2 += dn * unit
            db2 += dn
            dunit += dn * weight2[None, :]
        a = tl.sum(dunit, axis=1) / width
        b = tl.sum(dunit * unit, axis=1) / width
        g = (dunit - a[:, None] - unit * b[:, None]) * scale[:, None]
        g = tl.where(inside, g, 0.0)
        if UPSTREAM:
            g += tl.load(upstream + at, mask=inside, other=0.0)
        tl.store(g_out + at, g, mask=inside)
        if ADDS > 0:
            kind = delta1.dtype.element_ty
            if DROP:
                delta = tl.where(keep_mask(local, keys, seed, salt1, bound), g * keep_scale, 0.0)
            else:
                delta = g
            tl.store(delta1 + at, delta.to(kind), mask=inside)
            dc1 += delta
            if DROP and ADDS > 1:
                delta = tl.where(keep_mask(local, keys, seed, salt2, bound), g * keep_scale, 0.0)
                tl.store(delta2 + at, delta.to(kind), mask=inside)
                dc2 += delta
    out = sums + ((seed * programs + program) * 6).to(tl.int64) * width + column
    tl.store(out, tl.sum(dw1, axis=0), mask=valid)
    tl.store(out + width, tl.sum(db1, axis=0), mask=valid)
    tl.store(out + 2 * width, tl.sum(dw2, axis=0), mask=valid)
    tl.store(out + 3 * width, tl.sum(db2, axis=0), mask=valid)
    tl.store(out + 4 * width, tl.sum(dc1, axis=0), mask=valid)
    tl.store(out + 5 * width, tl.sum(dc2, axis=0), mask=valid)


def add_norm_back(
    saved: Any,
    upstream: Tensor | None,
    douts: Sequence[Tensor],
    norms: Sequence[Pair],
    norm_grads: Sequence[Pair],
    adds: Sequence[Residual],
    bias_grads: Sequence[Tensor],
    slots: Slots = (),
    deferred: DeferredSums | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """As `plain.add_norm_back`."""
    x, mean, scale = saved
    seeds, rows, width = x.shape
    tile = _tile(width)
    most = PROGRAMS // 2 if seeds == 1 else 4 * PROGRAMS // seeds
    programs = max(1, min(triton.cdiv(rows, tile[0]), most))
    g = torch.empty_like(x)
    deferred = deferred or ImmediateSums(x.device)
    sums = deferred.allocate(seeds, programs, 6, width)
    drop = adds[0].drop if adds else None
    different = 2 if drop is not None and len(adds) > 1 else min(1, len(adds))
    deltas = [_slot(slots, number, x, adds[0].delta.dtype) for number in range(different)]
    _add_norm_back_kernel[programs, seeds](
        x, mean, scale, x if upstream is None else upstream, douts[0], douts[-1], norms[0][0],
        norms[-1][0], g, deltas[0] if deltas else x, deltas[-1] if deltas else x, sums,
        *_drops(adds, x), rows, width, norms[0][0].stride(0), programs,
        ADDS=len(adds), NORMS=len(norms), DROP=drop is not None, UPSTREAM=upstream is not None,
        ROWS=tile[0], WIDTH=tile[1], STAGES=max(1, STAGES * 1024 // max(1024, tile[1])),
        num_warps=4,
    )  # fmt: skip
    targets = [grad for pair in norm_grads for grad in pair]
    deferred.add_to(
        [*targets, *bias_grads],
        [*range(len(targets)), *(4 + min(n, different - 1) for n in range(len(bias_grads)))],
    )
    return g, [deltas[min(number, different - 1)] for number in range(len(adds))]


def _slot(slots: Slots, number: int, like: Tensor, dtype: torch.dtype) -> Tensor:
    """The given slot, or new memory."""
    slot = slots[number] if number < len(slots) else None
    return torch.empty_like(like, dtype=dtype) if slot is None else slot
