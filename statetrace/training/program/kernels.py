"""The operations of the program as Triton kernels: one pass over memory each.

A residual stream of 128 x 101 positions is read in microseconds on a large GPU; what costs is
reading it ten times. Attention holds one head of one sequence at once, which is what short
sequences allow: nothing is streamed, and the way back computes the weights anew. Sums over rows
(gradients of biases and norms) are taken in a fixed order: partial sums, then their sum.

Caveat: attention needs at most `LONGEST` positions; `plain` takes over beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.program import plain
from statetrace.training.program.operations import Add, Drop, Heads

BLOCK = 64
LONGEST = 2 * BLOCK
PROGRAMS = 528
"""Programs that share the rows of a backward pass: four for each processor of the largest GPUs."""

Pair = tuple[Tensor, Tensor]


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _kept(index, keys, seed, salt, bound):
    """`plain.kept` without its scale, element by element."""
    key = _mix((tl.load(keys + seed) + salt).to(tl.uint32))
    return _mix(_mix(index.to(tl.uint32)) + key) >= bound.to(tl.uint32)


@triton.jit
def _drop_kernel(x, out, keys, salt, bound, scale, size, BLOCK: tl.constexpr):
    seed = tl.program_id(1)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    value = tl.load(x + seed.to(tl.int64) * size + index, mask=inside, other=0.0)
    value = tl.where(_kept(index, keys, seed, salt, bound), value * scale, 0.0)
    tl.store(out + seed.to(tl.int64) * size + index, value, mask=inside)


def dropped(values: Tensor, drop: Drop | None) -> Tensor:
    if drop is None:
        return values
    out, size = torch.empty_like(values), values[0].numel()
    grid = (triton.cdiv(size, 1024), len(values))
    _drop_kernel[grid](
        values, out, drop.keys, drop.spread, drop.bound, drop.scale, size, BLOCK=1024
    )
    return out


# -- add and norm ---------------------------------------------------------------------------------


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
    there = column < width
    inside = (row < rows)[:, None] & there[None, :]
    local = row[:, None] * width + column[None, :]
    at = seed.to(tl.int64) * rows * width + local
    vector = seed.to(tl.int64) * w_stride + column
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADDS > 0:
        more = tl.load(d1 + at, mask=inside, other=0.0).to(tl.float32)
        more += tl.load(c1 + vector, mask=there, other=0.0)[None, :]
        if DROP:
            more = tl.where(_kept(local, keys, seed, salt1, bound), more * keep_scale, 0.0)
        value += more
    if ADDS > 1:
        more = tl.load(d2 + at, mask=inside, other=0.0).to(tl.float32)
        more += tl.load(c2 + vector, mask=there, other=0.0)[None, :]
        if DROP:
            more = tl.where(_kept(local, keys, seed, salt2, bound), more * keep_scale, 0.0)
        value += more
    if ADDS > 0:
        tl.store(x_out + at, value, mask=inside)
    value = tl.where(inside, value, 0.0)
    mean = tl.sum(value, axis=1) / width
    centred = tl.where(inside, value - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / width + eps)
    unit = centred * scale[:, None]
    kind = n1.dtype.element_ty
    weight = tl.load(w1 + vector, mask=there, other=0.0)
    bias = tl.load(b1 + vector, mask=there, other=0.0)
    tl.store(n1 + at, (unit * weight[None, :] + bias[None, :]).to(kind), mask=inside)
    if NORMS > 1:
        weight = tl.load(w2 + vector, mask=there, other=0.0)
        bias = tl.load(b2 + vector, mask=there, other=0.0)
        tl.store(n2 + at, (unit * weight[None, :] + bias[None, :]).to(kind), mask=inside)
    tl.store(mean_out + seed.to(tl.int64) * rows + row, mean, mask=row < rows)
    tl.store(scale_out + seed.to(tl.int64) * rows + row, scale, mask=row < rows)


def add_norm(
    x: Tensor, adds: Sequence[Add], norms: Sequence[Pair], eps: float, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor], Any]:
    """As `plain.add_norm`."""
    seeds, rows, width = x.shape
    out = torch.empty_like(x) if adds else x
    normed = [torch.empty(x.shape, dtype=dtype, device=x.device) for _ in norms]
    mean = torch.empty(seeds, rows, device=x.device)
    scale = torch.empty_like(mean)
    first, second = adds[0] if adds else None, adds[1] if len(adds) > 1 else None
    drop = first.drop if first else None
    tile = _tile(width, 2048)
    _add_norm_kernel[triton.cdiv(rows, tile[0]), seeds](
        x,
        first.delta if first else x,
        first.bias if first else x,
        second.delta if second else x,
        second.bias if second else x,
        *norms[0],
        *norms[-1],
        out,
        normed[0],
        normed[-1],
        mean,
        scale,
        *_drops(adds, x),
        rows,
        width,
        norms[0][0].stride(0),
        eps,
        ADDS=len(adds),
        NORMS=len(norms),
        DROP=drop is not None,
        ROWS=tile[0],
        WIDTH=tile[1],
        num_warps=4,
    )
    return out, normed, (out, mean, scale)


def _drops(adds: Sequence[Add], other: Tensor) -> tuple[Any, ...]:
    """(keys, salts of both, bound, scale) as the kernels want them."""
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
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    program = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    there = column < width
    vector = seed.to(tl.int64) * w_stride + column
    weight1 = tl.load(w1 + vector, mask=there, other=0.0)
    weight2 = tl.load(w2 + vector, mask=there, other=0.0)
    zero = tl.zeros([WIDTH], dtype=tl.float32)
    dw1, db1, dw2, db2, dc1, dc2 = zero, zero, zero, zero, zero, zero
    for tile in range(program, tl.cdiv(rows, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & there[None, :]
        local = row[:, None] * width + column[None, :]
        at = seed.to(tl.int64) * rows * width + local
        mean = tl.load(mean_in + seed.to(tl.int64) * rows + row, mask=row < rows, other=0.0)
        scale = tl.load(scale_in + seed.to(tl.int64) * rows + row, mask=row < rows, other=0.0)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        unit = tl.where(inside, (value - mean[:, None]) * scale[:, None], 0.0)
        dn = tl.load(g1 + at, mask=inside, other=0.0).to(tl.float32)
        dw1 += tl.sum(dn * unit, axis=0)
        db1 += tl.sum(dn, axis=0)
        dunit = dn * weight1[None, :]
        if NORMS > 1:
            dn = tl.load(g2 + at, mask=inside, other=0.0).to(tl.float32)
            dw2 += tl.sum(dn * unit, axis=0)
            db2 += tl.sum(dn, axis=0)
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
                delta = tl.where(_kept(local, keys, seed, salt1, bound), g * keep_scale, 0.0)
            else:
                delta = g
            tl.store(delta1 + at, delta.to(kind), mask=inside)
            dc1 += tl.sum(delta, axis=0)
            if DROP and ADDS > 1:
                delta = tl.where(_kept(local, keys, seed, salt2, bound), g * keep_scale, 0.0)
                tl.store(delta2 + at, delta.to(kind), mask=inside)
                dc2 += tl.sum(delta, axis=0)
    out = sums + ((seed * programs + program) * 6).to(tl.int64) * width + column
    tl.store(out, dw1, mask=there)
    tl.store(out + width, db1, mask=there)
    tl.store(out + 2 * width, dw2, mask=there)
    tl.store(out + 3 * width, db2, mask=there)
    tl.store(out + 4 * width, dc1, mask=there)
    tl.store(out + 5 * width, dc2, mask=there)


def add_norm_back(
    saved: Any,
    upstream: Tensor | None,
    douts: Sequence[Tensor],
    norms: Sequence[Pair],
    norm_grads: Sequence[Pair],
    adds: Sequence[Add],
    bias_grads: Sequence[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    """As `plain.add_norm_back`."""
    x, mean, scale = saved
    seeds, rows, width = x.shape
    tile = _tile(width)
    programs = _share(triton.cdiv(rows, tile[0]), seeds)
    g = torch.empty_like(x)
    sums = torch.empty(seeds, programs, 6, width, device=x.device)
    drop = adds[0].drop if adds else None
    different = 2 if drop is not None and len(adds) > 1 else min(1, len(adds))
    deltas = [torch.empty_like(adds[0].delta) for _ in range(different)]
    _add_norm_back_kernel[programs, seeds](
        x,
        mean,
        scale,
        x if upstream is None else upstream,
        douts[0],
        douts[-1],
        norms[0][0],
        norms[-1][0],
        g,
        deltas[0] if deltas else x,
        deltas[-1] if deltas else x,
        sums,
        *_drops(adds, x),
        rows,
        width,
        norms[0][0].stride(0),
        programs,
        ADDS=len(adds),
        NORMS=len(norms),
        DROP=drop is not None,
        UPSTREAM=upstream is not None,
        ROWS=tile[0],
        WIDTH=tile[1],
        num_warps=4,
    )
    total = sums.sum(1)  # [S, 6, D]
    for number, (dweight, dbias) in enumerate(norm_grads):
        dweight.copy_(total[:, 2 * number])
        dbias.copy_(total[:, 2 * number + 1])
    for number, dbias in enumerate(bias_grads):
        dbias.copy_(total[:, 4 + min(number, different - 1)])
    return g, [deltas[min(number, different - 1)] for number in range(len(adds))]


def _share(tiles: int, seeds: int) -> int:
    """Programs per seed for so many tiles of rows."""
    return max(1, min(tiles, PROGRAMS // seeds))


# -- GELU -----------------------------------------------------------------------------------------


@triton.jit
def _gelu_parts(h, TANH: tl.constexpr):
    """(Phi(h), h * Phi'(h)) of the two usual approximations of the normal distribution's Phi.

    The exact one by formula 7.1.26 of Abramowitz and Stegun, off by 1e-7 at most, since the
    exponential in it is the one its derivative needs.
    """
    if TANH:
        inner = 0.7978845608028654 * (h + 0.044715 * h * h * h)
        share = tl.sigmoid(2.0 * inner)
        slope = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * h * h)
        return share, h * 2.0 * share * (1.0 - share) * slope
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(h))
    bell = tl.exp(-0.5 * h * h)
    tail = 0.254829592 + t * (
        -0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    )
    tail = 0.5 * t * tail * bell
    return tl.where(h < 0.0, tail, 1.0 - tail), h * bell * 0.3989422804014327


@triton.jit
def _gelu_kernel(
    h, bias, a, rows, width, b_stride,
    TANH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    at = seed.to(tl.int64) * rows * width + row[:, None] * width + column[None, :]
    value = tl.load(h + at, mask=inside, other=0.0).to(tl.float32)
    shift = seed.to(tl.int64) * b_stride + column
    value += tl.load(bias + shift, mask=column < width, other=0.0)[None, :]
    share, _ = _gelu_parts(value, TANH)
    tl.store(a + at, (value * share).to(a.dtype.element_ty), mask=inside)


def gelu(h: Tensor, bias: Tensor, approximate: str) -> tuple[Tensor, Tensor]:
    """As `plain.gelu`; what is kept is h without its bias."""
    seeds, rows, width = h.shape
    a = torch.empty_like(h)
    columns = min(1024, triton.next_power_of_2(width))
    lines = max(1, 4096 // columns)
    grid = (triton.cdiv(rows, lines), triton.cdiv(width, columns), seeds)
    _gelu_kernel[grid](
        h,
        bias,
        a,
        rows,
        width,
        bias.stride(0),
        TANH=approximate == "tanh",
        ROWS=lines,
        COLUMNS=columns,
        num_warps=4,
    )
    return a, h


@triton.jit
def _gelu_back_kernel(
    da, h, bias, dh, sums, rows, width, b_stride, programs,
    TANH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2)
    program = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < width
    shift = tl.load(bias + seed.to(tl.int64) * b_stride + column, mask=there, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)  # summed up once: that takes a barrier
    for tile in range(program, tl.cdiv(rows, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & there[None, :]
        at = seed.to(tl.int64) * rows * width + row[:, None] * width + column[None, :]
        value = tl.load(h + at, mask=inside, other=0.0).to(tl.float32) + shift[None, :]
        share, slope = _gelu_parts(value, TANH)
        grad = tl.load(da + at, mask=inside, other=0.0).to(tl.float32) * (share + slope)
        tl.store(dh + at, grad.to(dh.dtype.element_ty), mask=inside)
        total += grad
    out = sums + (seed * programs + program).to(tl.int64) * width + column
    tl.store(out, tl.sum(total, axis=0), mask=there)


def gelu_back(da: Tensor, saved: Tensor, bias: Tensor, approximate: str, dbias: Tensor) -> Tensor:
    """As `plain.gelu_back`."""
    seeds, rows, width = da.shape
    columns = min(128, triton.next_power_of_2(width))
    lines = max(1, 2048 // columns)
    blocks = triton.cdiv(width, columns)
    programs = max(1, min(triton.cdiv(rows, lines), 4 * PROGRAMS // (seeds * blocks)))
    dh = torch.empty_like(da)
    sums = torch.empty(seeds, programs, width, device=da.device)
    _gelu_back_kernel[programs, blocks, seeds](
        da,
        saved,
        bias,
        dh,
        sums,
        rows,
        width,
        bias.stride(0),
        programs,
        TANH=approximate == "tanh",
        ROWS=lines,
        COLUMNS=columns,
        num_warps=4,
    )
    torch.sum(sums, dim=1, out=dbias)
    return dh


# -- attention ------------------------------------------------------------------------------------


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


def _turn(x: Tensor, heads: Heads, direction: int, sums: Tensor | None = None) -> None:
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
    return tl.where(_kept(index, keys, seed, salt, bound), keep_scale, 0.0)


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
    return heads.length <= LONGEST and heads.width <= 128 and half & (half - 1) == 0


def attention(qkv: Tensor, heads: Heads) -> tuple[Tensor, Any]:
    """As `plain.attention`; what is kept is the projection itself, rotated in place."""
    if not fits(heads):
        return plain.attention(qkv, heads)
    _turn(qkv, heads, 1)
    z = torch.empty(*qkv.shape[:-1], heads.heads * heads.width, dtype=qkv.dtype, device=qkv.device)
    grid = (heads.heads * len(qkv) * heads.batch,)
    _attention_kernel[grid](qkv, z, *_told(qkv, heads), num_warps=_warps(heads))
    return z, qkv


def attention_back(dz: Tensor, saved: Any, heads: Heads, dbias: Tensor) -> Tensor:
    """As `plain.attention_back`."""
    if not fits(heads):
        return plain.attention_back(dz, saved, heads, dbias)
    qkv = saved
    dqkv = torch.empty_like(qkv)
    sums = torch.empty(len(qkv), heads.batch, qkv.shape[-1], device=qkv.device)
    grid = (heads.heads * len(qkv) * heads.batch,)
    _attention_back_kernel[grid](dz, qkv, dqkv, sums, *_told(qkv, heads), num_warps=_warps(heads))
    _turn(dqkv, heads, -1, sums)
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


# -- AdamW ----------------------------------------------------------------------------------------


@triton.jit
def _adam_kernel(
    value, work, grad, first, second, norms, told, size, most, decay, beta1, beta2, eps,
    CLIP: tl.constexpr, COPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    at = seed.to(tl.int64) * size + index
    rate = tl.load(told)
    rise1 = tl.load(told + 1)
    rise2 = tl.load(told + 2)
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    if CLIP:
        g *= tl.minimum(1.0, most / (tl.load(norms + seed) + 1e-6))
    w = tl.load(value + at, mask=inside, other=0.0)
    m = tl.load(first + at, mask=inside, other=0.0)
    v = tl.load(second + at, mask=inside, other=0.0)
    m += (1.0 - beta1) * (g - m)
    v = beta2 * v + (1.0 - beta2) * g * g
    w = w * (1.0 - rate * decay) - (rate / rise1) * m / (tl.sqrt(v) / tl.sqrt(rise2) + eps)
    tl.store(value + at, w, mask=inside)
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    if COPY:
        tl.store(work + at, w.to(work.dtype.element_ty), mask=inside)


def adam(
    value: Tensor,
    work: Tensor,
    grad: Tensor,
    moments: Pair,
    norms: Tensor,
    told: Tensor,
    most: float,
    decay: float,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """One step of AdamW on [S, n] with gradients clipped to the norm `most` (0: not at all).

    `norms` [S] are those of the gradients; `told` is (learning rate, 1 - beta1^t, 1 - beta2^t).
    """
    seeds, size = value.shape
    _adam_kernel[triton.cdiv(size, 1024), seeds](
        value,
        work,
        grad,
        *moments,
        norms,
        told,
        size,
        most,
        decay,
        *betas,
        eps,
        CLIP=most > 0,
        COPY=work.data_ptr() != value.data_ptr(),
        BLOCK=1024,
        num_warps=4,
    )
