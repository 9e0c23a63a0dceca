"""GELU of a product and its bias; and the way back, with the sums that are the bias's gradient."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.program.kernels.norm import PROGRAMS


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
