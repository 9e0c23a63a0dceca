"""Causal attention over short sequences: one program holds one head of one sequence.

Queries and keys are rotated inside. Partners cannot be swapped within a tile, only by addresses in
memory: the few rotated dimensions are rotated in a separate narrow pass, written to their own
buffer, and read from there, still in the cache. The backward pass reads them again, and rotates its
gradients back in the same way, in place, when all tiles are done.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused import plain
from statetrace.training.fused.kernels.dropout import keep_mask
from statetrace.training.fused.operations import LONGEST, WIDEST, HeadLayout

BLOCK = 64
NARROWEST = 16
"""Tensor cores need at least this many positions and dimensions."""

LOG2E = tl.constexpr(1.4426950408889634)


# -- tiles [positions, dims] from `x` on; positions past the end are zero --------------------------


@triton.jit
def _inside(left, valid, POSITIONS: tl.constexpr):
    return (tl.arange(0, POSITIONS) < left)[:, None] & valid[None, :]


@triton.jit
def _read(x, stride, left, dim, valid, POSITIONS: tl.constexpr):
    at = x + tl.arange(0, POSITIONS)[:, None] * stride + dim[None, :]
    return tl.load(at, mask=_inside(left, valid, POSITIONS), other=0.0)


@triton.jit
def _write(x, value, stride, left, dim, valid):
    at = x + tl.arange(0, value.shape[0])[:, None] * stride + dim[None, :]
    inside = _inside(left, valid, value.shape[0])
    tl.store(at, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _read_rotated(
    x, rot, stride, rot_stride, left, width, ROTATED: tl.constexpr, WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
):  # fmt: skip
    """Queries or keys: the rotated dimensions from `rot`, the others from `x`. One load, since
    products take those straight from memory."""
    dim = tl.arange(0, WIDTH)[None, :]
    position = tl.arange(0, POSITIONS)[:, None]
    at = x + position * stride + dim
    if ROTATED > 0:
        at = tl.where(dim < ROTATED, rot + position * rot_stride + dim, at)
    return tl.load(at, mask=(position < left) & (dim < width), other=0.0)


@triton.jit
def _rotate(
    x, out, stride, out_stride, part, out_part, cosine, sine, direction, left, width,
    ROTATED: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """Rotate the rotated dimensions of queries and keys, or undo it with direction -1; `out` may be
    `x`. All threads see what was written before and what is written here."""
    half: tl.constexpr = ROTATED // 2
    dim = tl.arange(0, half)
    valid = dim < width
    c = _read(cosine, width, left, dim, valid, POSITIONS)
    s = _read(sine + half, width, left, dim, valid, POSITIONS) * direction
    tl.debug_barrier()
    qa = _read(x, stride, left, dim, valid, POSITIONS).to(tl.float32)
    qb = _read(x + half, stride, left, dim, valid, POSITIONS).to(tl.float32)
    ka = _read(x + part, stride, left, dim, valid, POSITIONS).to(tl.float32)
    kb = _read(x + part + half, stride, left, dim, valid, POSITIONS).to(tl.float32)
    tl.debug_barrier()  # small tiles are replicated over threads: none may read the new values
    qa, qb = qa * c - qb * s, qb * c + qa * s
    ka, kb = ka * c - kb * s, kb * c + ka * s
    _write(out, qa, out_stride, left, dim, valid)
    _write(out + half, qb, out_stride, left, dim, valid)
    _write(out + out_part, ka, out_stride, left, dim, valid)
    _write(out + out_part + half, kb, out_stride, left, dim, valid)
    tl.debug_barrier()


@triton.jit
def _factor(query, key, dropping, DROP: tl.constexpr):
    """The dropout factor of weights [query, key]."""
    if DROP:
        first, length, keys, seed, salt, bound, keep_scale = dropping
        index = first + query[:, None] * length + key[None, :]
        factor = tl.where(keep_mask(index, keys, seed, salt, bound), keep_scale, 0.0)
    else:
        factor = 1.0
    return factor


# -- the kernels ---------------------------------------------------------------------------------


@triton.jit
def _attention_kernel(
    qkv, z, logs, rot, cosine, sine, keys, salt, bound, keep_scale,
    batch, length, heads, width, part, step, row_width, scale,
    DROP: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    TWO: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """One head of one sequence, as one block of positions or two; of two, the part in the future is
    left out. `logs` are base-2 logarithms of the softmax denominators."""
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    first = line.to(tl.int64) * length
    out_width = heads * width
    rot_width = heads * 2 * ROTATED
    qkv += first * row_width + head * step
    z += first * out_width + head * width
    logs += first * heads + head * length
    rot += first * rot_width + head * 2 * ROTATED
    first_weight = ((line % batch) * heads + head) * length * length
    dropping = (first_weight, length, keys, line // batch, salt, bound, keep_scale)
    scale *= LOG2E
    dim = tl.arange(0, WIDTH)
    valid = dim < width
    r0 = tl.arange(0, BLOCK)
    past = r0[:, None] >= r0[None, :]
    if ROTATED > 0:
        _rotate(
            qkv, rot, row_width, rot_width, part, ROTATED, cosine, sine, 1.0,
            length, width, ROTATED, 2 * BLOCK if TWO else BLOCK,
        )  # fmt: skip
    q = _read_rotated(qkv, rot, row_width, rot_width, length, width, ROTATED, WIDTH, BLOCK)
    k0 = _read_rotated(
        qkv + part, rot + ROTATED, row_width, rot_width, length, width, ROTATED, WIDTH, BLOCK
    )
    v0 = _read(qkv + 2 * part, row_width, length, dim, valid, BLOCK)
    s = tl.where(past, tl.dot(q, tl.trans(k0), input_precision=PRECISION) * scale, -1e30)
    most = tl.max(s, axis=1)
    p = tl.exp2(s - most[:, None])
    total = tl.sum(p, axis=1)
    tl.store(logs + r0, most + tl.log2(total), mask=r0 < length)
    p *= _factor(r0, r0, dropping, DROP)
    o = tl.dot(p.to(v0.dtype), v0, input_precision=PRECISION) / total[:, None]
    _write(z, o, out_width, length, dim, valid)
    if TWO:
        r1 = BLOCK + r0
        left = length - BLOCK
        qkv += BLOCK * row_width
        rot += BLOCK * rot_width
        q = _read_rotated(qkv, rot, row_width, rot_width, left, width, ROTATED, WIDTH, BLOCK)
        k1 = _read_rotated(
            qkv + part, rot + ROTATED, row_width, rot_width, left, width,
            ROTATED, WIDTH, BLOCK,
        )  # fmt: skip
        v1 = _read(qkv + 2 * part, row_width, left, dim, valid, BLOCK)
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
        _write(z + BLOCK * out_width, o, out_width, left, dim, valid)


@triton.jit
def _read_rows(
    qkv, rot, z, dz, logs, row_width, rot_width, out_width, left, width, scale,
    ROTATED: tl.constexpr, WIDTH: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """What the backward pass needs of the query positions: their queries, the gradient of their
    output and its product with that output, and the logarithms of their denominators."""
    dim = tl.arange(0, WIDTH)
    position = tl.arange(0, POSITIONS)
    q = _read_rotated(qkv, rot, row_width, rot_width, left, width, ROTATED, WIDTH, POSITIONS)
    d = _read(dz, out_width, left, dim, dim < width, POSITIONS)
    got = _read(z, out_width, left, dim, dim < width, POSITIONS)
    delta = tl.sum(d.to(tl.float32) * got.to(tl.float32), axis=1) * scale
    return q, d, delta, tl.load(logs + position, mask=position < left, other=0.0)


@triton.jit
def _weights(rows, k, scale, PRECISION: tl.constexpr, SAME: tl.constexpr):
    """Attention weights; SAME if queries and keys are one block, where some keys lie ahead."""
    q, _, _, logs = rows
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
    if SAME:
        position = tl.arange(0, s.shape[0])
        s = tl.where(position[:, None] >= position[None, :], s, -1e30)
    return tl.exp2(s - logs[:, None])


@triton.jit
def _scores_back(p, factor, rows, v, scale, PRECISION: tl.constexpr):
    """The gradient of the products of queries and keys."""
    _, d, delta, _ = rows
    dp = tl.dot(d, tl.trans(v), input_precision=PRECISION) * (factor * scale)
    return (p * (dp - delta[:, None])).to(v.dtype)


@triton.jit
def _attention_back_kernel(
    dz, dqkv, qkv, z, logs, rot, cosine, sine, keys, salt, bound, keep_scale,
    batch, length, heads, width, part, step, row_width, scale,
    DROP: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    TWO: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """Weights are recomputed, block of keys by block of keys from the end, and results are written
    as soon as they are known: at most three float32 tiles are live at once. Rows past the end are
    zero, as are their gradients."""
    head = tl.program_id(0) % heads
    line = tl.program_id(0) // heads
    first = line.to(tl.int64) * length
    out_width = heads * width
    rot_width = heads * 2 * ROTATED
    qkv += first * row_width + head * step
    dqkv += first * row_width + head * step
    z += first * out_width + head * width
    dz += first * out_width + head * width
    logs += first * heads + head * length
    rot += first * rot_width + head * 2 * ROTATED
    first_weight = ((line % batch) * heads + head) * length * length
    dropping = (first_weight, length, keys, line // batch, salt, bound, keep_scale)
    kind: tl.constexpr = qkv.dtype.element_ty
    dim = tl.arange(0, WIDTH)
    valid = dim < width
    r0 = tl.arange(0, BLOCK)
    dk, dv = tl.zeros((BLOCK, WIDTH), tl.float32), tl.zeros((BLOCK, WIDTH), tl.float32)
    # where the second block begins
    left = length - BLOCK
    on, out_on, rot_on = BLOCK * row_width, BLOCK * out_width, BLOCK * rot_width
    if TWO:
        r1 = BLOCK + r0
        rows = _read_rows(
            qkv + on, rot + rot_on, z + out_on, dz + out_on, logs + BLOCK, row_width,
            rot_width, out_width, left, width, scale, ROTATED, WIDTH, BLOCK,
        )  # fmt: skip
        q, d, _, _ = rows
        k = _read_rotated(
            qkv + on + part, rot + rot_on + ROTATED, row_width, rot_width, left, width,
            ROTATED, WIDTH, BLOCK,
        )  # fmt: skip
        v = _read(qkv + on + 2 * part, row_width, left, dim, valid, BLOCK)
        p = _weights(rows, k, scale, PRECISION, True)
        f = _factor(r1, r1, dropping, DROP)
        dv = tl.dot(tl.trans((p * f).to(kind)), d, input_precision=PRECISION)
        _write(dqkv + on + 2 * part, dv, row_width, left, dim, valid)
        ds = _scores_back(p, f, rows, v, scale, PRECISION)
        dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
        _write(dqkv + on + part, dk, row_width, left, dim, valid)
        dq = tl.dot(ds, k, input_precision=PRECISION)
    k = _read_rotated(
        qkv + part, rot + ROTATED, row_width, rot_width, length, width, ROTATED, WIDTH, BLOCK
    )
    v = _read(qkv + 2 * part, row_width, length, dim, valid, BLOCK)
    if TWO:
        p = _weights(rows, k, scale, PRECISION, False)
        f = _factor(r1, r0, dropping, DROP)
        ds = _scores_back(p, f, rows, v, scale, PRECISION)
        dq = tl.dot(ds, k, dq, input_precision=PRECISION)
        _write(dqkv + on, dq, row_width, left, dim, valid)
        dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
        dv = tl.dot(tl.trans((p * f).to(kind)), d, input_precision=PRECISION)
    rows = _read_rows(
        qkv, rot, z, dz, logs, row_width, rot_width, out_width, length, width, scale,
        ROTATED, WIDTH, BLOCK,
    )  # fmt: skip
    q, d, _, _ = rows
    p = _weights(rows, k, scale, PRECISION, True)
    f = _factor(r0, r0, dropping, DROP)
    dv = tl.dot(tl.trans((p * f).to(kind)), d, dv, input_precision=PRECISION)
    _write(dqkv + 2 * part, dv, row_width, length, dim, valid)
    ds = _scores_back(p, f, rows, v, scale, PRECISION)
    dk = tl.dot(tl.trans(ds), q, dk, input_precision=PRECISION)
    _write(dqkv + part, dk, row_width, length, dim, valid)
    dq = tl.dot(ds, k, input_precision=PRECISION)
    _write(dqkv, dq, row_width, length, dim, valid)
    if ROTATED > 0:
        _rotate(
            dqkv, dqkv, row_width, row_width, part, part, cosine, sine, -1.0,
            length, width, ROTATED, 2 * BLOCK if TWO else BLOCK,
        )  # fmt: skip


def fits(heads: HeadLayout) -> bool:
    """Whether one head of one sequence is one or two blocks."""
    half = heads.rotated // 2
    return heads.length <= LONGEST and heads.width <= WIDEST and half & (half - 1) == 0


def attention(qkv: Tensor, heads: HeadLayout, slot: Tensor | None = None) -> tuple[Tensor, Any]:
    """As `plain.attention`; saves the projection, the result, the logarithms of the denominators
    and the rotated dimensions."""
    if not fits(heads):
        return plain.attention(qkv, heads, slot)
    each = (len(qkv) * heads.batch, heads.length, heads.heads)
    wide = heads.heads * heads.width
    z = qkv.new_empty(*qkv.shape[:-1], wide) if slot is None else slot
    logs = torch.empty(each, device=qkv.device)
    rot = torch.empty(*each, 2 * _rotated(heads), dtype=qkv.dtype, device=qkv.device)
    saved = (qkv, z, logs, rot)
    _attention_kernel[_grid(qkv, heads)](
        *saved, *_arguments(qkv, heads), **_resources(qkv, heads, 128)
    )
    return z, saved


def attention_back(dz: Tensor, saved: Any, heads: HeadLayout, slot: Tensor | None = None) -> Tensor:
    """As `plain.attention_back`."""
    if not fits(heads):
        return plain.attention_back(dz, saved, heads, slot)
    qkv = saved[0]
    dqkv = torch.empty_like(qkv) if slot is None else slot
    resources = _resources(qkv, heads, 168 if heads.drop is None else None)
    _attention_back_kernel[_grid(qkv, heads)](
        dz, dqkv, *saved, *_arguments(qkv, heads), **resources
    )
    return dqkv


def _grid(qkv: Tensor, heads: HeadLayout) -> tuple[int]:
    return (len(qkv) * heads.batch * heads.heads,)


def _rotated(heads: HeadLayout) -> int:
    return 0 if heads.rotation is None else heads.rotated


def _arguments(qkv: Tensor, heads: HeadLayout) -> tuple[Any, ...]:
    """The arguments of both attention kernels after their tensors."""
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


def _resources(qkv: Tensor, heads: HeadLayout, registers: int | None) -> dict[str, int]:
    """Warps and registers of a program. `registers` limits the largest tiles: with fewer than the
    compiler would use, more programs run at once, which pays as long as little spills to memory."""
    resources = {"num_warps": 4 if heads.length > 32 else 1}
    largest = heads.length > BLOCK and heads.width <= 64 and qkv.element_size() == 2
    return resources | {"maxnreg": registers} if registers and largest else resources
