"""Sublayers of narrow models in one pass over the rows each: norm and joint projection; attention's
output, norm and MLP; and their backward passes.

A tile holds whole rows, so a norm and the products after it need no memory in between. The backward
pass of the MLP recomputes its hidden layer, which is faster than reading it. Gradients of matrices
are general products of what the kernels write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.kernels.gelu import _gelu_parts
from statetrace.training.fused.kernels.sums import ImmediateSums
from statetrace.training.fused.operations import Residual

Pair = tuple[Tensor, Tensor]

TILE, MOST_ROWS, WARPS = 8192, 128, 8
"""Elements of a tile of rows, its rows, and the warps of the program that holds it."""


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


# -- pieces: tiles [rows, columns] of one seed; rows past the end are zero ---------------------------


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
def _normalize(value, weight, bias, eps, WIDTH: tl.constexpr):
    """(norm, mean, scale) of rows."""
    mean = tl.sum(value, axis=1) / WIDTH
    centred = value - mean[:, None]
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / WIDTH + eps)
    return centred * scale[:, None] * weight[None, :] + bias[None, :], mean, scale


@triton.jit
def _normalize_back(dn, x, mean, scale, weight, out, row, rows, column, WIDTH: tl.constexpr):
    """The gradient of the rows `x`; those of the norm's weight and bias are written to `out`."""
    value = _tile(x, row, rows, column, WIDTH)
    mean = tl.load(mean + row, mask=row < rows, other=0.0)
    scale = tl.load(scale + row, mask=row < rows, other=0.0)
    unit = (value - mean[:, None]) * scale[:, None]
    tl.store(out + column, tl.sum(dn * unit, axis=0))
    tl.store(out + WIDTH + column, tl.sum(dn, axis=0))
    dunit = dn * tl.load(weight + column)[None, :]
    a = tl.sum(dunit, axis=1) / WIDTH
    b = tl.sum(dunit * unit, axis=1) / WIDTH
    return (dunit - a[:, None] - unit * b[:, None]) * scale[:, None]


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
    n, mean, scale = _normalize(value, tl.load(weight + vector), tl.load(bias + vector), eps, WIDTH)
    tl.store(mean_out + seed * rows + row, mean, mask=row < rows)
    tl.store(scale_out + seed * rows + row, scale, mask=row < rows)
    n = n.to(n_out.dtype.element_ty)
    _store(n_out + skip, n, row, rows, column, WIDTH)
    for part in tl.static_range(PARTS):
        wide = part * WIDTH + column
        m = _matrix(matrix + seed * strides[0], strides, column, wide)
        o = tl.dot(n, m, input_precision=PRECISION) + tl.load(c3 + seed * v_stride + wide)[None, :]
        _store(out + skip * PARTS, o, row, rows, wide, WIDTH * PARTS)


@triton.jit
def _project_back_kernel(
    dout, matrix, x, mean, scale, weight, upstream, g_out, delta, sums,
    rows, v_stride, strides,
    ADDS: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Three sums over the rows of every program: the gradients of the norm's weight and bias, and
    the gradient of a bias that was added to the stream."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    skip = seed * rows * WIDTH
    vectors = sums + (seed * tl.num_programs(0) + tl.program_id(0)) * 3 * WIDTH
    dn = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for part in tl.static_range(PARTS):
        wide = part * WIDTH + column
        d = _tile(dout + skip * PARTS, row, rows, wide, WIDTH * PARTS)
        m = _matrix(matrix + seed * strides[0], strides, column, wide)
        dn = tl.dot(d, tl.trans(m), dn, input_precision=PRECISION)
    g = _normalize_back(
        dn, x + skip, mean + seed * rows, scale + seed * rows, weight + seed * v_stride,
        vectors, row, rows, column, WIDTH,
    )  # fmt: skip
    g += _tile(upstream + skip, row, rows, column, WIDTH)
    _store(g_out + skip, g, row, rows, column, WIDTH)
    if ADDS > 0:
        _store(delta + skip, g, row, rows, column, WIDTH)
        tl.store(vectors + 2 * WIDTH + column, tl.sum(g, axis=0))


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
        got = _tile(z + skip, row, rows, column, WIDTH)
        value += tl.dot(got, m, input_precision=PRECISION) + tl.load(c1 + vector)[None, :]
        _store(x_out + skip, value, row, rows, column, WIDTH)
    n, mean, scale = _normalize(value, tl.load(weight + vector), tl.load(bias + vector), eps, WIDTH)
    tl.store(mean_out + seed * rows + row, mean, mask=row < rows)
    tl.store(scale_out + seed * rows + row, scale, mask=row < rows)
    n = n.to(n_out.dtype.element_ty)
    _store(n_out + skip, n, row, rows, column, WIDTH)
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
def _mlp_back_kernel(
    dy, n, x, mean, scale, weight, upstream, out, fc, c2, proj,
    a_out, dh_out, g_out, delta, dz, sums, wide_sums,
    rows, v_stride, out_strides, fc_strides, proj_strides,
    ATTEND: tl.constexpr, TANH: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Sums as in `_project_back_kernel`, and `wide_sums`: the gradient of the hidden bias."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    skip = seed * rows * WIDTH
    program = seed * tl.num_programs(0) + tl.program_id(0)
    vectors = sums + program * 3 * WIDTH
    normed = _tile(n + skip, row, rows, column, WIDTH)
    d = _tile(dy + skip, row, rows, column, WIDTH)
    dn = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for part in range(PARTS):
        wide = part * WIDTH + column
        into = _matrix(fc + seed * fc_strides[0], fc_strides, column, wide)
        h = tl.dot(normed, into, input_precision=PRECISION)
        h += tl.load(c2 + seed * v_stride + wide)[None, :]
        share, slope = _gelu_parts(h, TANH)
        _store(a_out + skip * PARTS, h * share, row, rows, wide, WIDTH * PARTS)
        back = _matrix(proj + seed * proj_strides[0], proj_strides, wide, column)
        dh = tl.dot(d, tl.trans(back), input_precision=PRECISION) * (share + slope)
        tl.store(wide_sums + program * PARTS * WIDTH + wide, tl.sum(dh, axis=0))
        dh = dh.to(d.dtype)
        _store(dh_out + skip * PARTS, dh, row, rows, wide, WIDTH * PARTS)
        dn = tl.dot(dh, tl.trans(into), dn, input_precision=PRECISION)
    g = _normalize_back(
        dn, x + skip, mean + seed * rows, scale + seed * rows, weight + seed * v_stride,
        vectors, row, rows, column, WIDTH,
    )  # fmt: skip
    g += _tile(upstream + skip, row, rows, column, WIDTH)
    _store(g_out + skip, g, row, rows, column, WIDTH)
    if ATTEND:
        tl.store(vectors + 2 * WIDTH + column, tl.sum(g, axis=0))
        added = g.to(d.dtype)
        _store(delta + skip, added, row, rows, column, WIDTH)
        m = _matrix(out + seed * out_strides[0], out_strides, column, column)
        _store(
            dz + skip, tl.dot(added, tl.trans(m), input_precision=PRECISION),
            row, rows, column, WIDTH,
        )  # fmt: skip


# -- their callers -------------------------------------------------------------------------------


def _launch(x: Tensor, matrix: Tensor) -> tuple[tuple[int, int], dict[str, int | str]]:
    """The grid over the rows of a stream, and the constants of all kernels; `matrix` [S, D, F] is
    the widest."""
    seeds, rows, width = x.shape
    each = min(MOST_ROWS, TILE // width)
    precision = "ieee" if matrix.dtype == torch.float32 else "tf32"
    constants = {"ROWS": each, "WIDTH": width, "PARTS": matrix.shape[2] // width}
    return (triton.cdiv(rows, each), seeds), constants | {
        "PRECISION": precision,
        "num_warps": WARPS,
    }


def _normed(x: Tensor, changed: bool, dtype: torch.dtype) -> Normed:
    stream = torch.empty_like(x) if changed else x
    mean = torch.empty(x.shape[:2], device=x.device)
    return Normed(stream, torch.empty_like(x, dtype=dtype), mean, torch.empty_like(mean))


def project(
    x: Tensor, adds: Sequence[Residual], norm: Pair, matrix: Tensor, bias: Tensor, eps: float
) -> tuple[Normed, Tensor]:
    """The stream x plus `adds`, normed, and the product [S, N, F] of the norm with `matrix`
    [S, D, F], plus `bias`."""
    x = x.contiguous()  # a token table is part of a larger buffer
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
) -> tuple[Tensor, Tensor]:
    """The gradient of x, given that of the product and `g`, that of the stream itself; and the same
    in the working precision, as that of everything added to the stream."""
    x, _, mean, scale = normed
    sums, out = ImmediateSums(x.device), torch.empty_like(x)
    delta = torch.empty_like(normed.n) if bias_grads else out
    grid, constants = _launch(x, matrix)
    _project_back_kernel[grid](
        dout, matrix, x, mean, scale, norm[0], g, out, delta,
        sums.allocate(grid[1], grid[0], 3, x.shape[2]), x.shape[1], norm[0].stride(0),
        matrix.stride(), ADDS=len(bias_grads), **constants,
    )  # fmt: skip
    sums.add_to([*norm_grads, *bias_grads], [0, 1, *[2] * len(bias_grads)])
    return out, delta


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


def mlp_back(
    dy: Tensor,
    g: Tensor,
    normed: Normed,
    weights: Mlp,
    norm_grads: Pair,
    bias_grad: Tensor,
    out_bias_grad: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Hidden]:
    """(gradient of the stream before the MLP; the same in the working precision and the gradient of
    z, if attention's output was added; the hidden layer)."""
    x, n, mean, scale = normed
    attends = weights.out is not None
    shape = (*x.shape[:2], weights.fc.shape[2])
    hidden = Hidden(*(torch.empty(shape, dtype=n.dtype, device=x.device) for _ in range(2)))
    more, delta, dz = torch.empty_like(x), torch.empty_like(n), torch.empty_like(n)
    sums, wide_sums = ImmediateSums(x.device), ImmediateSums(x.device)
    grid, constants = _launch(x, weights.fc)
    out = weights.out[0] if weights.out else weights.fc
    programs, seeds = grid
    _mlp_back_kernel[grid](
        dy, n, x, mean, scale, weights.norm[0], g, out, weights.fc, weights.bias, weights.proj,
        *hidden, more, delta, dz, sums.allocate(seeds, programs, 3, x.shape[2]),
        wide_sums.allocate(seeds, programs, 1, shape[2]), x.shape[1], weights.bias.stride(0),
        out.stride(), weights.fc.stride(), weights.proj.stride(),
        ATTEND=attends, TANH=weights.tanh, **constants,
    )  # fmt: skip
    biases = [] if out_bias_grad is None else [out_bias_grad]
    sums.add_to([*norm_grads, *biases], [0, 1, *[2] * len(biases)])
    wide_sums.add_to([bias_grad], [0])
    return more, delta, dz, hidden
