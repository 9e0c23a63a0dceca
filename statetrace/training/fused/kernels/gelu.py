"""GELU of a product and its bias; and the backward pass, with the gradient of the bias."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.kernels.sums import PROGRAMS, STAGES, ImmediateSums
from statetrace.training.fused.operations import DeferredSums


@triton.jit
def _gelu_parts(h, TANH: tl.constexpr):
    """(Phi(h), h * Phi'(h)) for two approximations of the normal distribution function Phi.

    Without TANH it is formula 7.1.26 of Abramowitz and Stegun, with an error of at most 1e-7, whose
    exponential the derivative needs too. 1 / x is computed as rsqrt(x) squared: rsqrt is a single
    instruction, and a division takes many.
    """
    if TANH:
        square = h * h
        root = tl.rsqrt(1.0 + tl.exp2(h * (-2.302208198 - 0.1029432397 * square)))
        share = root * root
        return share, h * share * (1.0 - share) * (1.5957691216 + 0.2140644488 * square)
    root = tl.rsqrt(1.0 + 0.231641888 * tl.abs(h))
    t = root * root
    bell = tl.exp2(-0.7213475204 * h * h)
    tail = 0.127414796 + t * (
        -0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))
    )
    tail = t * tail * bell
    return tl.where(h < 0.0, tail, 1.0 - tail), h * bell * 0.3989422804


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


def gelu(
    h: Tensor, bias: Tensor, approximate: str, slot: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """As `plain.gelu`; saves h without its bias."""
    seeds, rows, width = h.shape
    a = torch.empty_like(h) if slot is None else slot
    columns = min(1024, triton.next_power_of_2(width))
    lines = max(1, 4096 // columns)
    grid = (triton.cdiv(rows, lines), triton.cdiv(width, columns), seeds)
    _gelu_kernel[grid](
        h, bias, a, rows, width, bias.stride(0),
        TANH=approximate == "tanh", ROWS=lines, COLUMNS=columns, num_warps=8,
    )  # fmt: skip
    return a, h


@triton.jit
def _gelu_back_kernel(
    da, h, bias, dh, sums, rows, width, b_stride, programs,
    TANH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2)
    program = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = column < width
    shift = tl.load(bias + seed.to(tl.int64) * b_stride + column, mask=valid, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)  # reduced once, which takes a barrier
    for tile in tl.range(program, tl.cdiv(rows, ROWS), programs, num_stages=STAGES):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & valid[None, :]
        at = seed.to(tl.int64) * rows * width + row[:, None] * width + column[None, :]
        value = tl.load(h + at, mask=inside, other=0.0).to(tl.float32) + shift[None, :]
        share, slope = _gelu_parts(value, TANH)
        grad = tl.load(da + at, mask=inside, other=0.0).to(tl.float32) * (share + slope)
        tl.store(dh + at, grad.to(dh.dtype.element_ty), mask=inside)
        total += grad
    out = sums + (seed * programs + program).to(tl.int64) * width + column
    tl.store(out, tl.sum(total, axis=0), mask=valid)


def gelu_back(
    da: Tensor,
    saved: Tensor,
    bias: Tensor,
    approximate: str,
    dbias: Tensor,
    slot: Tensor | None = None,
    deferred: DeferredSums | None = None,
) -> Tensor:
    """As `plain.gelu_back`."""
    seeds, rows, width = da.shape
    columns = min(128, triton.next_power_of_2(width))
    lines = max(1, 2048 // columns)
    blocks = triton.cdiv(width, columns)
    programs = max(1, min(triton.cdiv(rows, lines), 4 * PROGRAMS // (seeds * blocks)))
    dh = torch.empty_like(da) if slot is None else slot
    deferred = deferred or ImmediateSums(da.device)
    sums = deferred.allocate(seeds, programs, 1, width)
    _gelu_back_kernel[programs, blocks, seeds](
        da, saved, bias, dh, sums, rows, width, bias.stride(0), programs,
        TANH=approximate == "tanh", ROWS=lines, COLUMNS=columns, STAGES=STAGES, num_warps=4,
    )  # fmt: skip
    deferred.add_to([dbias], [0])
    return dh
