"""Sublayers of narrow models in one pass over the rows each: norm and joint projection; attention's
output, norm and MLP; and their backward passes.

A tile holds whole rows, so a norm and the products after it need no memory in between. The backward
pass of the MLP recomputes its hidden layer, which is faster than reading it. Gradients of matrices
are general products of what the kernels write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.kernels.gelu import _gelu_parts
from statetrace.training.fused.kernels.sums import ImmediateSums
from statetrace.training.fused.operations import Residual

Pair = tuple[Tensor, Tensor]

ROWS, ELEMENTS, WARPS = 64, 4096, 4
"""At most as many rows and elements of a tile, and warps of the program that holds it."""


class Normed(NamedTuple):
    """A residual stream [S, N, D] in float32, its norm in the working precision, and the means and
    scales [S, N] of its rows."""

    x: Tensor
    n: Tensor
    mean: Tensor
    scale: Tensor


class Hidden(NamedTuple):
    """The MLP's hidden layer and the gradient of its input before the GELU, [S, N, F] each."""

    a: Tensor
    dh: Tensor


# -- pieces: tiles [rows, columns] of one seed; rows past the end are zero -------------------------


@triton.jit
def _tile(x, row, rows, column, width):
    """Columns `column` of the rows `row` of a matrix that is `width` wide."""
    at = x + row[:, None] * width + column[None, :]
    return tl.load(at, mask=(row < rows)[:, None], other=0.0)


@triton.jit
def _store(x, value, row, rows, column, width):
    at = x + row[:, None] * width + column[None, :]
    tl.store(at, value.to(x.dtype.element_ty), mask=(row < rows)[:, None])


@triton.jit
def _matrix(x, strides, row, column):
    return tl.load(x + row[:, None] * strides[1] + column[None, :] * strides[2])


@triton.jit
def _norm(
    value, weight, bias, n_out, mean_out, scale_out, seed, row, rows, column, eps,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """The norms of rows in the working precision; they, their means and scales are stored."""
    mean = tl.sum(value, axis=1) / WIDTH
    centred = value - mean[:, None]
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / WIDTH + eps)
    n = centred * scale[:, None] * weight[None, :] + bias[None, :]
    tl.store(mean_out + seed * rows + row, mean, mask=row < rows)
    tl.store(scale_out + seed * rows + row, scale, mask=row < rows)
    n = n.to(n_out.dtype.element_ty)
    _store(n_out + seed * rows * WIDTH, n, row, rows, column, WIDTH)
    return n


# -- the kernels ---------------------------------------------------------------------------------


@triton.jit
def _project_kernel(
    x, d1, c1, d2, c2, weight, bias, matrix, c3, x_out, n_out, mean_out, scale_out, out,
    rows, v_stride, strides, eps,
    ADDS: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """What was added to the stream, its norm, and the product of the norm with a matrix that is
    PARTS times as wide."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    skip = seed * rows * WIDTH
    vector = seed * v_stride + column
    value = _tile(x + skip, row, rows, column, WIDTH)
    if ADDS > 0:
        value += _tile(d1 + skip, row, rows, column, WIDTH).to(tl.float32)
        value += tl.load(c1 + vector)[None, :]
    if ADDS > 1:
        value += _tile(d2 + skip, row, rows, column, WIDTH).to(tl.float32)
        value += tl.load(c2 + vector)[None, :]
    if ADDS > 0:
        _store(x_out + skip, value, row, rows, column, WIDTH)
    n = _norm(
        value, tl.load(weight + vector), tl.load(bias + vector), n_out, mean_out, scale_out,
        seed, row, rows, column, eps, WIDTH,
    )  # fmt: skip
    for part in range(PARTS):
        wide = part * WIDTH + column
        m = _matrix(matrix + seed * strides[0], strides, column, wide)
        o = tl.dot(n, m, input_precision=PRECISION) + tl.load(c3 + seed * v_stride + wide)[None, :]
        _store(out + skip * PARTS, o, row, rows, wide, WIDTH * PARTS)


@triton.jit
def _project_back_kernel(
    dout, matrix, x, mean, scale, weight, upstream, out, g_out, delta, dz, sums,
    rows, v_stride, strides, out_strides,
    ADDS: tl.constexpr, ATTEND: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """The gradient of the stream before a norm and a product. Three sums over the rows of every
    program: the gradients of the norm's weight and bias, and with ADDS the gradient of a bias that
    was added to the stream. With ATTEND what was added is the product of z with `out`."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    skip = seed * rows * WIDTH
    vectors = sums + (seed * tl.num_programs(0) + tl.program_id(0)) * 3 * WIDTH + column
    value = _tile(x + skip, row, rows, column, WIDTH)
    g = _tile(upstream + skip, row, rows, column, WIDTH)
    at = seed * rows + row
    mean = tl.load(mean + at, mask=row < rows, other=0.0)
    scale = tl.load(scale + at, mask=row < rows, other=0.0)
    dn = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for part in range(PARTS):
        wide = part * WIDTH + column
        d = _tile(dout + skip * PARTS, row, rows, wide, WIDTH * PARTS)
        m = _matrix(matrix + seed * strides[0], strides, column, wide)
        dn = tl.dot(d, tl.trans(m), dn, input_precision=PRECISION)
    unit = (value - mean[:, None]) * scale[:, None]
    tl.store(vectors, tl.sum(dn * unit, axis=0))
    tl.store(vectors + WIDTH, tl.sum(dn, axis=0))
    dunit = dn * tl.load(weight + seed * v_stride + column)[None, :]
    a = tl.sum(dunit, axis=1) / WIDTH
    b = tl.sum(dunit * unit, axis=1) / WIDTH
    g += (dunit - a[:, None] - unit * b[:, None]) * scale[:, None]
    _store(g_out + skip, g, row, rows, column, WIDTH)
    if ADDS > 0:
        tl.store(vectors + 2 * WIDTH, tl.sum(g, axis=0))
        added = g.to(delta.dtype.element_ty)
        _store(delta + skip, added, row, rows, column, WIDTH)
        if ATTEND:
            m = _matrix(out + seed * out_strides[0], out_strides, column, column)
            dz_tile = tl.dot(added, tl.trans(m), input_precision=PRECISION)
            _store(dz + skip, dz_tile, row, rows, column, WIDTH)


@triton.jit
def _mlp_kernel(
    x, z, out, c1, weight, bias, fc, c2, proj, x_out, n_out, mean_out, scale_out, y,
    rows, v_stride, out_strides, fc_strides, proj_strides, eps,
    ATTEND: tl.constexpr, TANH: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """With ATTEND the stream gets the product of `z` with the matrix `out` first. The MLP's last
    bias is added by whoever reads y."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    skip = seed * rows * WIDTH
    vector = seed * v_stride + column
    value = _tile(x + skip, row, rows, column, WIDTH)
    if ATTEND:
        m = _matrix(out + seed * out_strides[0], out_strides, column, column)
        attended = _tile(z + skip, row, rows, column, WIDTH)
        value += tl.dot(attended, m, input_precision=PRECISION) + tl.load(c1 + vector)[None, :]
        _store(x_out + skip, value, row, rows, column, WIDTH)
    n = _norm(
        value, tl.load(weight + vector), tl.load(bias + vector), n_out, mean_out, scale_out,
        seed, row, rows, column, eps, WIDTH,
    )  # fmt: skip
    total = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for part in range(PARTS):
        wide = part * WIDTH + column
        m = _matrix(fc + seed * fc_strides[0], fc_strides, column, wide)
        h = tl.dot(n, m, input_precision=PRECISION) + tl.load(c2 + seed * v_stride + wide)[None, :]
        share, _ = _gelu_parts(h, TANH)
        m = _matrix(proj + seed * proj_strides[0], proj_strides, wide, column)
        total = tl.dot((h * share).to(n.dtype), m, total, input_precision=PRECISION)
    _store(y + skip, total, row, rows, column, WIDTH)


@triton.jit
def _hidden_back_kernel(
    dy, n, fc, c2, proj, a_out, dh_out, sums,
    rows, v_stride, fc_strides, proj_strides,
    TANH: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """One part of the MLP's hidden layer and of its gradient before the GELU; `sums` of the latter
    over the rows of every program."""
    part = tl.program_id(0) % PARTS
    tile = tl.program_id(0) // PARTS
    seed = tl.program_id(1).to(tl.int64)
    row = tile * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    wide = part * WIDTH + column
    skip = seed * rows * WIDTH
    normed = _tile(n + skip, row, rows, column, WIDTH)
    into = _matrix(fc + seed * fc_strides[0], fc_strides, column, wide)
    d = _tile(dy + skip, row, rows, column, WIDTH)
    back = _matrix(proj + seed * proj_strides[0], proj_strides, wide, column)
    h = tl.dot(normed, into, input_precision=PRECISION)
    h += tl.load(c2 + seed * v_stride + wide)[None, :]
    dh = tl.dot(d, tl.trans(back), input_precision=PRECISION)
    share, slope = _gelu_parts(h, TANH)
    _store(a_out + skip * PARTS, h * share, row, rows, wide, WIDTH * PARTS)
    dh *= share + slope
    _store(dh_out + skip * PARTS, dh, row, rows, wide, WIDTH * PARTS)
    program = seed * (tl.num_programs(0) // PARTS) + tile
    tl.store(sums + program * PARTS * WIDTH + wide, tl.sum(dh, axis=0))


# -- their callers -------------------------------------------------------------------------------


def _launch(x: Tensor, matrix: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid over the rows of a stream, and the constants of a kernel; `matrix` [S, D, F] is the
    widest."""
    seeds, rows, width = x.shape
    assert x.is_contiguous()
    each = min(ROWS, ELEMENTS // width)
    precision = "ieee" if matrix.dtype == torch.float32 else "tf32"
    constants: dict[str, Any] = {"ROWS": each, "WIDTH": width, "PARTS": matrix.shape[2] // width}
    constants |= {"PRECISION": precision, "num_warps": WARPS}
    return (triton.cdiv(rows, each), seeds), constants


def _normed(x: Tensor, changed: bool, dtype: torch.dtype) -> Normed:
    stream = torch.empty_like(x) if changed else x
    mean = torch.empty(x.shape[:2], device=x.device)
    return Normed(stream, torch.empty_like(x, dtype=dtype), mean, torch.empty_like(mean))


def project(
    x: Tensor, adds: Sequence[Residual], norm: Pair, matrix: Tensor, bias: Tensor, eps: float
) -> tuple[Normed, Tensor]:
    """The stream x plus `adds`, normed, and the product [S, N, F] of the norm with `matrix`
    [S, D, F], plus `bias`."""
    normed = _normed(x, bool(adds), matrix.dtype)
    out = torch.empty(*x.shape[:2], matrix.shape[2], dtype=matrix.dtype, device=x.device)
    more = [each for add in adds for each in (add.delta, add.bias)]
    grid, constants = _launch(x, matrix)
    _project_kernel[grid](
        x, *more, *[x] * (4 - len(more)), *norm, matrix, bias, *normed, out,
        x.shape[1], bias.stride(0), matrix.stride(), eps, ADDS=len(adds), **constants,
    )  # fmt: skip
    return normed, out


def project_back(
    dout: Tensor,
    g: Tensor,
    normed: Normed,
    norm: Pair,
    matrix: Tensor,
    norm_grads: Pair,
    bias_grads: Sequence[Tensor],
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the stream before it was normed, given that of the product and `g`, that of
    the stream itself; the same in the working precision, as that of everything added to the stream
    with a bias; and if that was a product with `out`, the gradient of what was multiplied."""
    x, n, mean, scale = normed
    sums, g_out = ImmediateSums(x.device), torch.empty_like(x)
    delta = torch.empty_like(n) if bias_grads else n
    dz = n if out is None else torch.empty_like(n)
    last = matrix if out is None else out
    grid, constants = _launch(x, matrix)
    _project_back_kernel[grid](
        dout, matrix, x, mean, scale, norm[0], g, last, g_out, delta, dz,
        sums.allocate(grid[1], grid[0], 3, x.shape[2]), x.shape[1], norm[0].stride(0),
        matrix.stride(), last.stride(), ADDS=len(bias_grads), ATTEND=out is not None, **constants,
    )  # fmt: skip
    sums.add_to([*norm_grads, *bias_grads], [0, 1, *[2] * len(bias_grads)])
    return g_out, delta, dz


class Mlp(NamedTuple):
    """The weights of an MLP and of the norm before it; and of attention's output, if it is added to
    the stream first. Matrices are [S, in, out]."""

    norm: Pair
    fc: Tensor
    bias: Tensor
    proj: Tensor
    out: tuple[Tensor, Tensor] | None
    tanh: bool


def mlp(x: Tensor, z: Tensor, weights: Mlp, eps: float) -> tuple[Normed, Tensor]:
    """The stream, plus attention's output if that is added first, normed; and the result of the
    MLP without its last bias."""
    attends = weights.out is not None
    normed = _normed(x, attends, weights.fc.dtype)
    y = torch.empty_like(normed.n)
    out, bias = weights.out or (weights.fc, weights.bias)
    grid, constants = _launch(x, weights.fc)
    _mlp_kernel[grid](
        x, z, out, bias, *weights.norm, weights.fc, weights.bias, weights.proj, *normed, y,
        x.shape[1], weights.bias.stride(0), out.stride(), weights.fc.stride(),
        weights.proj.stride(), eps, ATTEND=attends, TANH=weights.tanh, **constants,
    )  # fmt: skip
    return normed, y


def mlp_back(dy: Tensor, normed: Normed, weights: Mlp, bias_grad: Tensor) -> Hidden:
    """The hidden layer, computed again, and its gradient."""
    seeds, rows, _ = dy.shape
    shape = (seeds, rows, weights.fc.shape[2])
    hidden = Hidden(*(torch.empty(shape, dtype=dy.dtype, device=dy.device) for _ in range(2)))
    sums = ImmediateSums(dy.device)
    (programs, _), constants = _launch(dy, weights.fc)
    _hidden_back_kernel[programs * constants["PARTS"], seeds](
        dy, normed.n, weights.fc, weights.bias, weights.proj, *hidden,
        sums.allocate(seeds, programs, 1, shape[2]), rows, weights.bias.stride(0),
        weights.fc.stride(), weights.proj.stride(), TANH=weights.tanh, **constants,
    )  # fmt: skip
    sums.add_to([bias_grad], [0])
    return hidden
