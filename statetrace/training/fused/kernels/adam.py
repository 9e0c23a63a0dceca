"""AdamW over one buffer of parameters, gradients clipped on the way; and the norm they are clipped
by."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.kernels.sums import PROGRAMS


@triton.jit
def _adam_kernel(
    value, work, grad, first, second, norms, told, size, most, decay, beta1, beta2, eps,
    CLIP: tl.constexpr, COPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
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
    moments: tuple[Tensor, Tensor],
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


@triton.jit
def _norm_kernel(x, out, size, out_stride, programs, BLOCK: tl.constexpr):
    """Of the numbers that one program takes."""
    seed = tl.program_id(1)
    program = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for block in range(program, tl.cdiv(size, BLOCK), programs):
        index = block * BLOCK + tl.arange(0, BLOCK)
        at = seed.to(tl.int64) * size + index
        value = tl.load(x + at, mask=index < size, other=0.0).to(tl.float32)
        total += value * value
    tl.store(out + seed * out_stride + program, tl.sqrt(tl.sum(total, axis=0)))


def norms(grads: Sequence[Tensor], block: int = 2048) -> Tensor:
    """As `plain.norms`, of [S, n] each."""
    seeds = len(grads[0])
    each = [min(triton.cdiv(grad.shape[1], block), 4 * PROGRAMS) for grad in grads]
    found = torch.empty(seeds, sum(each), device=grads[0].device)
    start = 0
    for grad, programs in zip(grads, each, strict=True):
        _norm_kernel[programs, seeds](
            grad,
            found[:, start:],
            grad.shape[1],
            sum(each),
            programs,
            BLOCK=block,
            num_warps=4,
        )
        start += programs
    return torch.linalg.vector_norm(found, dim=1)
