"""Causal attention over short sequences: one program holds one head of one sequence."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.program import plain
from statetrace.training.program.kernels.dropout import kept
from statetrace.training.program.kernels.rotation import turn
from statetrace.training.program.operations import LONGEST, WIDEST, Heads

BLOCK = 64


@triton.jit
def _rows(x, line, length, row_width, start, position, dim, width):
    """Some positions of one sequence, [positions, E], from column `start` on."""
    inside = (position < length)[:, None] & (dim < width)[None, :]
    at = (line.to(tl.int64) * length + position)[:, None] * row_width + start + dim[None, :]
    return tl.load(x + at, mask=inside, other=0.0)


@triton.jit
def _write(x, value, line, length, row_width, start, position, dim, width):
    inside = (position < length)[:, None] & (dim < width)[None, :]
    at = (line.to(tl.int64) * length + position)[:, None] * row_width + start + dim[None, :]
    tl.store(x + at, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _scores(q, k, rows, columns, scale, length, PRECISION: tl.constexpr):
    found = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    seen = (rows[:, None] >= columns[None, :]) & (columns < length)[None, :]
    return tl.where(seen, found, -1e30)


@triton.jit
def _factor(rows, columns, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale):
    """What dropout multiplies a block of weights by."""
    index = ((line % batch) * heads + head) * length * length
    index = index + rows[:, None] * length + columns[None, :]
    return tl.where(kept(index, keys, seed, salt, bound), keep_scale, 0.0)


@triton.jit
def _attention_kernel(
    qkv, z, keys, salt, bound, keep_scale,
    batch, length, heads, width, part, step, row_width, scale,
    DROP: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    TWO: tl.constexpr,
):  # fmt: skip
    """One head of one sequence, as one block of positions or as two; of two, the part that lies in
    the future is left out."""
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    seed = line // batch
    dim = tl.arange(0, WIDTH)
    start = head * step
    r0 = tl.arange(0, BLOCK)
    q = _rows(qkv, line, length, row_width, start, r0, dim, width)
    k0 = _rows(qkv, line, length, row_width, start + part, r0, dim, width)
    v0 = _rows(qkv, line, length, row_width, start + 2 * part, r0, dim, width)
    s0 = _scores(q, k0, r0, r0, scale, length, PRECISION)
    p0 = tl.exp(s0 - tl.max(s0, axis=1)[:, None])
    total = tl.sum(p0, axis=1)
    if DROP:
        p0 *= _factor(r0, r0, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale)
    o = tl.dot(p0.to(v0.dtype), v0, input_precision=PRECISION) / total[:, None]
    _write(z, o, line, length, heads * width, head * width, r0, dim, width)
    if TWO:
        r1 = BLOCK + r0
        q = _rows(qkv, line, length, row_width, start, r1, dim, width)
        k1 = _rows(qkv, line, length, row_width, start + part, r1, dim, width)
        v1 = _rows(qkv, line, length, row_width, start + 2 * part, r1, dim, width)
        s0 = _scores(q, k0, r1, r0, scale, length, PRECISION)
        s1 = _scores(q, k1, r1, r1, scale, length, PRECISION)
        most = tl.maximum(tl.max(s0, axis=1), tl.max(s1, axis=1))
        p0 = tl.exp(s0 - most[:, None])
        p1 = tl.exp(s1 - most[:, None])
        total = tl.sum(p0, axis=1) + tl.sum(p1, axis=1)
        if DROP:
            p0 *= _factor(
                r1, r0, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale
            )
            p1 *= _factor(
                r1, r1, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale
            )
        o = tl.dot(p0.to(v0.dtype), v0, input_precision=PRECISION)
        o = tl.dot(p1.to(v1.dtype), v1, o, input_precision=PRECISION) / total[:, None]
        _write(z, o, line, length, heads * width, head * width, r1, dim, width)


@triton.jit
def _attention_back_kernel(
    dz, qkv, dqkv, sums, keys, salt, bound, keep_scale,
    batch, length, heads, width, part, step, row_width, scale,
    DROP: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    TWO: tl.constexpr,
):  # fmt: skip
    """The weights are computed anew. Rows beyond the end are zero: nothing looks at them, and
    nothing comes back to them."""
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    seed = line // batch
    dim = tl.arange(0, WIDTH)
    start = head * step
    r0 = tl.arange(0, BLOCK)
    kind: tl.constexpr = qkv.dtype.element_ty
    q0 = _rows(qkv, line, length, row_width, start, r0, dim, width)
    k0 = _rows(qkv, line, length, row_width, start + part, r0, dim, width)
    v0 = _rows(qkv, line, length, row_width, start + 2 * part, r0, dim, width)
    d0 = _rows(dz, line, length, heads * width, head * width, r0, dim, width)
    s = _scores(q0, k0, r0, r0, scale, length, PRECISION)
    p = tl.exp(s - tl.max(s, axis=1)[:, None])
    p = p / tl.sum(p, axis=1)[:, None]
    dp = tl.dot(d0, tl.trans(v0), input_precision=PRECISION)
    if DROP:
        f = _factor(r0, r0, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale)
        dv0 = tl.dot(tl.trans((p * f).to(kind)), d0, input_precision=PRECISION)
        dp *= f
    else:
        dv0 = tl.dot(tl.trans(p.to(kind)), d0, input_precision=PRECISION)
    ds = (p * (dp - tl.sum(p * dp, axis=1)[:, None]) * scale).to(kind)
    dq = tl.dot(ds, k0, input_precision=PRECISION)
    dk0 = tl.dot(tl.trans(ds), q0, input_precision=PRECISION)
    _write(dqkv, dq, line, length, row_width, start, r0, dim, width)
    sum_q = tl.sum(dq, axis=0)
    out = sums + line.to(tl.int64) * row_width + start + dim
    there = dim < width
    if TWO:
        r1 = BLOCK + r0
        q1 = _rows(qkv, line, length, row_width, start, r1, dim, width)
        k1 = _rows(qkv, line, length, row_width, start + part, r1, dim, width)
        v1 = _rows(qkv, line, length, row_width, start + 2 * part, r1, dim, width)
        d1 = _rows(dz, line, length, heads * width, head * width, r1, dim, width)
        s0 = _scores(q1, k0, r1, r0, scale, length, PRECISION)
        s1 = _scores(q1, k1, r1, r1, scale, length, PRECISION)
        most = tl.maximum(tl.max(s0, axis=1), tl.max(s1, axis=1))
        p0 = tl.exp(s0 - most[:, None])
        p1 = tl.exp(s1 - most[:, None])
        total = tl.sum(p0, axis=1) + tl.sum(p1, axis=1)
        p0 = p0 / total[:, None]
        p1 = p1 / total[:, None]
        dp0 = tl.dot(d1, tl.trans(v0), input_precision=PRECISION)
        dp1 = tl.dot(d1, tl.trans(v1), input_precision=PRECISION)
        if DROP:
            f = _factor(
                r1, r0, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale
            )
            dv0 = tl.dot(tl.trans((p0 * f).to(kind)), d1, dv0, input_precision=PRECISION)
            dp0 *= f
            f = _factor(
                r1, r1, line, head, batch, heads, length, keys, seed, salt, bound, keep_scale
            )
            dv1 = tl.dot(tl.trans((p1 * f).to(kind)), d1, input_precision=PRECISION)
            dp1 *= f
        else:
            dv0 = tl.dot(tl.trans(p0.to(kind)), d1, dv0, input_precision=PRECISION)
            dv1 = tl.dot(tl.trans(p1.to(kind)), d1, input_precision=PRECISION)
        delta = tl.sum(p0 * dp0, axis=1) + tl.sum(p1 * dp1, axis=1)
        ds0 = (p0 * (dp0 - delta[:, None]) * scale).to(kind)
        ds1 = (p1 * (dp1 - delta[:, None]) * scale).to(kind)
        dq = tl.dot(ds0, k0, input_precision=PRECISION)
        dq = tl.dot(ds1, k1, dq, input_precision=PRECISION)
        _write(dqkv, dq, line, length, row_width, start, r1, dim, width)
        sum_q += tl.sum(tl.where((r1 < length)[:, None], dq, 0.0), axis=0)
        dk0 = tl.dot(tl.trans(ds0), q1, dk0, input_precision=PRECISION)
        dk1 = tl.dot(tl.trans(ds1), q1, input_precision=PRECISION)
        _write(dqkv, dk1, line, length, row_width, start + part, r1, dim, width)
        _write(dqkv, dv1, line, length, row_width, start + 2 * part, r1, dim, width)
        tl.store(out + part, tl.sum(dk0, axis=0) + tl.sum(dk1, axis=0), mask=there)
        tl.store(out + 2 * part, tl.sum(dv0, axis=0) + tl.sum(dv1, axis=0), mask=there)
    else:
        tl.store(out + part, tl.sum(dk0, axis=0), mask=there)
        tl.store(out + 2 * part, tl.sum(dv0, axis=0), mask=there)
    tl.store(out, sum_q, mask=there)
    _write(dqkv, dk0, line, length, row_width, start + part, r0, dim, width)
    _write(dqkv, dv0, line, length, row_width, start + 2 * part, r0, dim, width)


def fits(heads: Heads) -> bool:
    """Whether one head of one sequence is one or two blocks."""
    half = heads.rotated // 2
    return heads.length <= LONGEST and heads.width <= WIDEST and half & (half - 1) == 0


def attention(qkv: Tensor, heads: Heads, room: Tensor | None = None) -> tuple[Tensor, Any]:
    """As `plain.attention`; what is kept is the projection itself, rotated in place."""
    if not fits(heads):
        return plain.attention(qkv, heads, room)
    turn(qkv, heads, 1)
    wide = heads.heads * heads.width
    z = qkv.new_empty(*qkv.shape[:-1], wide) if room is None else room
    grid = (heads.heads * len(qkv) * heads.batch,)
    _attention_kernel[grid](qkv, z, *_told(qkv, heads), num_warps=_warps(heads))
    return z, qkv


def attention_back(
    dz: Tensor, saved: Any, heads: Heads, dbias: Tensor, room: Tensor | None = None
) -> Tensor:
    """As `plain.attention_back`."""
    if not fits(heads):
        return plain.attention_back(dz, saved, heads, dbias, room)
    qkv = saved
    dqkv = torch.empty_like(qkv) if room is None else room
    sums = torch.empty(len(qkv), heads.batch, qkv.shape[-1], device=qkv.device)
    grid = (heads.heads * len(qkv) * heads.batch,)
    _attention_back_kernel[grid](dz, qkv, dqkv, sums, *_told(qkv, heads), num_warps=_warps(heads))
    turn(dqkv, heads, -1, sums)
    torch.sum(sums, dim=1, out=dbias)
    return dqkv


def _told(qkv: Tensor, heads: Heads) -> tuple[Any, ...]:
    """What both attention kernels are told behind their tensors."""
    drop = heads.drop
    dropping = (
        (qkv, 0, 0, 1.0) if drop is None else (drop.keys, drop.spread, drop.bound, drop.scale)
    )
    sizes = (heads.batch, heads.length, heads.heads, heads.width, *heads.strides, qkv.shape[-1])
    precision = "ieee" if qkv.dtype == torch.float32 else "tf32"
    two = heads.length > BLOCK
    # a tensor core takes 16 at least
    block = BLOCK if two else max(16, triton.next_power_of_2(heads.length))
    wide = max(16, triton.next_power_of_2(heads.width))
    return *dropping, *sizes, heads.scale, drop is not None, precision, block, wide, two


def _warps(heads: Heads) -> int:
    return 4 if heads.length > 32 else 2
