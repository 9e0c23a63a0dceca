"""Causal attention over short sequences: one program holds one head of one sequence.

Queries and keys are rotated inside. A tile has no addresses to swap partners by, memory has: the
few rotated dimensions are turned in a narrow pass of their own, written beside the projection, and
read from there with the rest, still in the cache. The way back reads them again, and turns its
gradients back in the same way, in place, when all tiles are done.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused import plain
from statetrace.training.fused.kernels.dropout import kept
from statetrace.training.fused.operations import LONGEST, WIDEST, Heads

BLOCK = 64
NARROWEST = 16
"""A tensor core takes no fewer positions or dimensions."""

LOG2E = tl.constexpr(1.4426950408889634)


# -- tiles: as many positions from `x` on as lie before the end, [positions, dims]; else zero ------


@triton.jit
def _inside(left, there, POSITIONS: tl.constexpr):
    return (tl.arange(0, POSITIONS) < left)[:, None] & there[None, :]


@triton.jit
def _read(x, stride, left, dim, there, POSITIONS: tl.constexpr):
    at = x + tl.arange(0, POSITIONS)[:, None] * stride + dim[None, :]
    return tl.load(at, mask=_inside(left, there, POSITIONS), other=0.0)


@triton.jit
def _write(x, value, stride, left, dim, there):
    at = x + tl.arange(0, value.shape[0])[:, None] * stride + dim[None, :]
    inside = _inside(left, there, value.shape[0])
    tl.store(at, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _read_turned(
    x, turned, stride, turned_stride, left, width, ROTATED: tl.constexpr, WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
):  # fmt: skip
    """Queries or keys: the rotated dimensions from `turned`, the others from `x`. One load, since
    products take those straight from memory."""
    dim = tl.arange(0, WIDTH)[None, :]
    position = tl.arange(0, POSITIONS)[:, None]
    at = x + position * stride + dim
    if ROTATED > 0:
        at = tl.where(dim < ROTATED, turned + position * turned_stride + dim, at)
    return tl.load(at, mask=(position < left) & (dim < width), other=0.0)


@triton.jit
def _turn(
    x, out, stride, out_stride, part, out_part, cosine, sine, direction, left, width,
    ROTATED: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """The rotated dimensions of queries and keys turned, or back with direction -1; `out` may be
    `x`. All threads see what was written before and what is written here."""
    half: tl.constexpr = ROTATED // 2
    dim = tl.arange(0, half)
    there = dim < width
    c = _read(cosine, width, left, dim, there, POSITIONS)
    s = _read(sine + half, width, left, dim, there, POSITIONS) * direction
    tl.debug_barrier()
    qa = _read(x, stride, left, dim, there, POSITIONS).to(tl.float32)
    qb = _read(x + half, stride, left, dim, there, POSITIONS).to(tl.float32)
    ka = _read(x + part, stride, left, dim, there, POSITIONS).to(tl.float32)
    kb = _read(x + part + half, stride, left, dim, there, POSITIONS).to(tl.float32)
    tl.debug_barrier()  # small tiles are held by several threads: none may read what is new
    qa, qb = qa * c - qb * s, qb * c + qa * s
    ka, kb = ka * c - kb * s, kb * c + ka * s
    _write(out, qa, out_stride, left, dim, there)
    _write(out + half, qb, out_stride, left, dim, there)
    _write(out + out_part, ka, out_stride, left, dim, there)
    _write(out + out_part + half, kb, out_stride, left, dim, there)
    tl.debug_barrier()


@triton.jit
def _factor(looking, seen, dropping, DROP: tl.constexpr):
    """What dropout multiplies weights [looking, seen] by."""
    if DROP:
        first, length, keys, seed, salt, bound, keep_scale = dropping
        index = first + looking[:, None] * length + seen[None, :]
        factor = tl.where(kept(index, keys, seed, salt, bound), keep_scale, 0.0)
    else:
        factor = 1.0
    return factor


# -- the kernels ---------------------------------------------------------------------------------


@triton.jit
def _attention_kernel(
    qkv, z, logs, turned, cosine, sine, keys, salt, bound, keep_scale,
    batch, length, heads, width, part, step, row_width, scale,
    DROP: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    TWO: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """One head of one sequence, as one block of positions or as two; of two, the part that lies in
    the future is left out. `logs` are of the sums that the weights are divided by, to base 2."""
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    first = line.to(tl.int64) * length
    out_width = heads * width
    turned_width = heads * 2 * ROTATED
    qkv += first * row_width + head * step
    z += first * out_width + head * width
    logs += first * heads + head * length
    turned += first * turned_width + head * 2 * ROTATED
    first_weight = ((line % batch) * heads + head) * length * length
    dropping = (first_weight, length, keys, line // batch, salt, bound, keep_scale)
    scale *= LOG2E
    dim = tl.arange(0, WIDTH)
    there = dim < width
    r0 = tl.arange(0, BLOCK)
    past = r0[:, None] >= r0[None, :]
    if ROTATED > 0:
        _turn(
            qkv, turned, row_width, turned_width, part, ROTATED, cosine, sine, 1.0,
            length, width, ROTATED, 2 * BLOCK if TWO else BLOCK,
        )  # fmt: skip
    q = _read_turned(qkv, turned, row_width, turned_width, length, width, ROTATED, WIDTH, BLOCK)
    k0 = _read_turned(
        qkv + part, turned + ROTATED, row_width, turned_width, length, width, ROTATED, WIDTH, BLOCK
    )
    v0 = _read(qkv + 2 * part, row_width, length, dim, there, BLOCK)
    s = tl.where(past, tl.dot(q, tl.trans(k0), input_precision=PRECISION) * scale, -1e30)
    most = tl.max(s, axis=1)
    p = tl.exp2(s - most[:, None])
    total = tl.sum(p, axis=1)
    tl.store(logs + r0, most + tl.log2(total), mask=r0 < length)
    p *= _factor(r0, r0, dropping, DROP)
    o = tl.dot(p.to(v0.dtype), v0, input_precision=PRECISION) / total[:, None]
    _write(z, o, out_width, length, dim, there)
    if TWO:
        r1 = BLOCK + r0
        left = length - BLOCK
        qkv += BLOCK * row_width
        turned += BLOCK * turned_width
        q = _read_turned(qkv, turned, row_width, turned_width, left, width, ROTATED, WIDTH, BLOCK)
        k1 = _read_turned(
            qkv + part, turned + ROTATED, row_width, turned_width, left, width,
            ROTATED, WIDTH, BLOCK,
        )  # fmt: skip
        v1 = _read(qkv + 2 * part, row_width, left, dim, there, BLOCK)
        s0 = tl.dot(q, tl.trans(k0), input_precision=PRECISION) * scale
        s1 = tl.where(past, tl.dot(q, tl.trans(k1), input_precision=PRECISION) * scale, -1e30)
        most = tl.maximum(tl.max(s0, axis=1), tl.max(s1, axis=1))
        p0 = tl.exp2(s0 - most[:, None])
        p1 = tl.exp2(s1 - most[:, None])
        total = tl.sum(p0, axis=1) + tl.sum(p1, axis=1)
        tl.store(logs + r1, most + tl.log2(total), mask=r1 < length)
        p0 *= _factor(r1, r0, dropping, DROP)
        p1 *= _factor(r1, r1, dropping, DROP)
        o = tl.dot(p0.to(v0.dtype), v0, input_precision=PRECISION)
        o = tl.dot(p1.to(v1.dtype), v1, o, input_precision=PRECISION) / total[:, None]
        _write(z + BLOCK * out_width, o, out_width, left, dim, there)


@triton.jit
def _read_rows(
    qkv, turned, z, dz, logs, row_width, turned_width, out_width, left, width, scale,
    ROTATED: tl.constexpr, WIDTH: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """What the way back needs of the positions that look: their queries, what comes back to them
    and its product with what they got, and the logarithms of their sums."""
    dim = tl.arange(0, WIDTH)
    position = tl.arange(0, POSITIONS)
    q = _read_turned(qkv, turned, row_width, turned_width, left, width, ROTATED, WIDTH, POSITIONS)
    d = _read(dz, out_width, left, dim, dim < width, POSITIONS)
    got = _read(z, out_width, left, dim, dim < width, POSITIONS)
    delta = tl.sum(d.to(tl.float32) * got.to(tl.float32), axis=1) * scale
    return q, d, delta, tl.load(logs + position, mask=position < left, other=0.0)


@triton.jit
def _weights(rows, k, scale, PRECISION: tl.constexpr, SAME: tl.constexpr):
    """How positions look at keys; SAME if those are their own, where some lie in the future."""
    q, _, _, logs = rows
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
    if SAME:
        position = tl.arange(0, s.shape[0])
        s = tl.where(position[:, None] >= position[None, :], s, -1e30)
    return tl.exp2(s - logs[:, None])


@triton.jit
def _scores_back(p, factor, rows, v, scale, PRECISION: tl.constexpr):
    """What comes back to the products of queries and keys."""
    _, d, delta, _ = rows
    dp = tl.dot(d, tl.trans(v), input_precision=PRECISION) * (factor * scale)
    return (p * (dp - delta[:, None])).to(v.dtype)


@triton.jit
def _attention_back_kernel(
    dz, dqkv, qkv, z, logs, turned, cosine, sine, keys, salt, bound, keep_scale,
    batch, length, heads, width, part, step, row_width, scale,
    DROP: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    TWO: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """The weights are computed anew, keys by keys from the end, and all is written as soon as it is
    known: of the tiles in float32, at most three are alive at once. Rows beyond the end are zero:
    nothing comes back to them, so nothing goes on from them."""
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    first = line.to(tl.int64) * length
    out_width = heads * width
    turned_width = heads * 2 * ROTATED
    qkv += first * row_width + head * step
    dqkv += first * row_width + head * step
    z += first * out_width + head * width
    dz += first * out_width + head * width
    logs += first * heads + head * length
    turned += first * turned_width + head * 2 * ROTATED
    first_weight = ((line % batch) * heads + head) * length * length
    dropping = (first_weight, length, keys, line // batch, salt, bound, keep_scale)
    kind: tl.constexpr = qkv.dtype.element_ty
    dim = tl.arange(0, WIDTH)
    there = dim < width
    r0 = tl.arange(0, BLOCK)
    dk, dv = tl.zeros((BLOCK, WIDTH), tl.float32), tl.zeros((BLOCK, WIDTH), tl.float32)
    # where the second block begins
    left = length - BLOCK
    on, out_on, turned_on = BLOCK * row_width, BLOCK * out_width, BLOCK * turned_width
    if TWO:
        r1 = BLOCK + r0
        rows = _read_rows(
            qkv + on, turned + turned_on, z + out_on, dz + out_on, logs + BLOCK, row_width,
            turned_width, out_width, left, width, scale, ROTATED, WIDTH, BLOCK,
        )  # fmt: skip
        q, d, _, _ = rows
        k = _read_turned(
            qkv + on + part, turned + turned_on + ROTATED, row_width, turned_width, left, width,
            ROTATED, WIDTH, BLOCK,
        )  # fmt: skip
        v = _read(qkv + on + 2 * part, row_width, left, dim, there, BLOCK)
        p = _weights(rows, k, scale, PRECISION, True)
        f = _factor(r1, r1, dropping, DROP)
        dv = tl.dot(tl.trans((p * f).to(kind)), d, input_precision=PRECISION)
        _write(dqkv + on + 2 * part, dv, row_width, left, dim, there)
        ds = _scores_back(p, f, rows, v, scale, PRECISION)
        dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
        _write(dqkv + on + part, dk, row_width, left, dim, there)
        dq = tl.dot(ds, k, input_precision=PRECISION)
    k = _read_turned(
        qkv + part, turned + ROTATED, row_width, turned_width, length, width, ROTATED, WIDTH, BLOCK
    )
    v = _read(qkv + 2 * part, row_width, length, dim, there, BLOCK)
    if TWO:
        p = _weights(rows, k, scale, PRECISION, False)
        f = _factor(r1, r0, dropping, DROP)
        ds = _scores_back(p, f, rows, v, scale, PRECISION)
        dq = tl.dot(ds, k, dq, input_precision=PRECISION)
        _write(dqkv + on, dq, row_width, left, dim, there)
        dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
        dv = tl.dot(tl.trans((p * f).to(kind)), d, input_precision=PRECISION)
    rows = _read_rows(
        qkv, turned, z, dz, logs, row_width, turned_width, out_width, length, width, scale,
        ROTATED, WIDTH, BLOCK,
    )  # fmt: skip
    q, d, _, _ = rows
    p = _weights(rows, k, scale, PRECISION, True)
    f = _factor(r0, r0, dropping, DROP)
    dv = tl.dot(tl.trans((p * f).to(kind)), d, dv, input_precision=PRECISION)
    _write(dqkv + 2 * part, dv, row_width, length, dim, there)
    ds = _scores_back(p, f, rows, v, scale, PRECISION)
    dk = tl.dot(tl.trans(ds), q, dk, input_precision=PRECISION)
    _write(dqkv + part, dk, row_width, length, dim, there)
    dq = tl.dot(ds, k, input_precision=PRECISION)
    _write(dqkv, dq, row_width, length, dim, there)
    if ROTATED > 0:
        _turn(
            dqkv, dqkv, row_width, row_width, part, part, cosine, sine, -1.0,
            length, width, ROTATED, 2 * BLOCK if TWO else BLOCK,
        )  # fmt: skip


def fits(heads: Heads) -> bool:
    """Whether one head of one sequence is one or two blocks."""
    half = heads.rotated // 2
    return heads.length <= LONGEST and heads.width <= WIDEST and half & (half - 1) == 0


def attention(qkv: Tensor, heads: Heads, room: Tensor | None = None) -> tuple[Tensor, Any]:
    """As `plain.attention`; kept are the projection, the result, the logarithms of sums and what
    is rotated."""
    if not fits(heads):
        return plain.attention(qkv, heads, room)
    each = (len(qkv) * heads.batch, heads.length, heads.heads)
    wide = heads.heads * heads.width
    z = qkv.new_empty(*qkv.shape[:-1], wide) if room is None else room
    logs = torch.empty(each, device=qkv.device)
    turned = torch.empty(*each, 2 * _rotated(heads), dtype=qkv.dtype, device=qkv.device)
    kept = (qkv, z, logs, turned)
    _attention_kernel[_grid(qkv, heads)](*kept, *_told(qkv, heads), **_resources(qkv, heads, 128))
    return z, kept


def attention_back(dz: Tensor, saved: Any, heads: Heads, room: Tensor | None = None) -> Tensor:
    """As `plain.attention_back`."""
    if not fits(heads):
        return plain.attention_back(dz, saved, heads, room)
    qkv = saved[0]
    dqkv = torch.empty_like(qkv) if room is None else room
    _attention_back_kernel[_grid(qkv, heads)](
        dz,
        dqkv,
        *saved,
        *_told(qkv, heads),
        **_resources(qkv, heads, 168 if heads.drop is None else None),
    )
    return dqkv


def _grid(qkv: Tensor, heads: Heads) -> tuple[int]:
    return (len(qkv) * heads.batch * heads.heads,)


def _rotated(heads: Heads) -> int:
    return 0 if heads.rotation is None else heads.rotated


def _told(qkv: Tensor, heads: Heads) -> tuple[Any, ...]:
    """What both attention kernels are told behind their tensors."""
    drop = heads.drop
    turns = (qkv, qkv) if heads.rotation is None else heads.rotation
    dropping = (
        (qkv, 0, 0, 1.0) if drop is None else (drop.keys, drop.spread, drop.bound, drop.scale)
    )
    sizes = (heads.batch, heads.length, heads.heads, heads.width, *heads.strides, qkv.shape[-1])
    precision = "ieee" if qkv.dtype == torch.float32 else "tf32"
    two = heads.length > BLOCK
    block = BLOCK if two else _power(heads.length)
    tiles = (block, _power(heads.width), two, _rotated(heads))
    return *turns, *dropping, *sizes, heads.scale, drop is not None, precision, *tiles


def _power(extent: int) -> int:
    power: int = triton.next_power_of_2(extent)
    return max(NARROWEST, power)


def _resources(qkv: Tensor, heads: Heads, registers: int | None) -> dict[str, int]:
    """Of a program. `registers` are for the largest tiles: with fewer than it would take by itself
    more programs run at once, which pays as long as few numbers go to memory for it."""
    told = {"num_warps": 4 if heads.length > 32 else 2}
    largest = heads.length > BLOCK and heads.width <= 64 and qkv.element_size() == 2
    return told | {"maxnreg": registers} if registers and largest else told
