"""AdamW over one buffer of parameters, with gradient clipping; and the gradient norm it uses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused.kernels.sums import PROGRAMS


@triton.jit
def _adam_kernel(
    value, work, grad, first, second, norms, schedule, size, most, decay, beta1, beta2, eps,
    CLIP: tl.constexpr, COPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    at = seed.to(tl.int64) * size + index
    rate = tl.load(schedule)
    correction1 = tl.load(schedule + 1)
    correction2 = tl.load(schedule + 2)
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    if CLIP:
        g *= tl.minimum(1.0, most / (tl.load(norms + seed) + 1e-6))
    w = tl.load(value + at, mask=inside, other=0.0)
    m = tl.load(first + at, mask=inside, other=0.0)
    v = tl.load(second + at, mask=inside, other=0.0)
    m += (1.0 - beta1) * (g - m)
    v = beta2 * v + (1.0 - beta2) * g * g
    scale = tl.sqrt(v) / tl.sqrt(correction2) + eps
    w = w * (1.0 - rate * decay) - (rate / correction1) * m / scale
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
    schedule: Tensor,
    most: float,
    decay: float,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """One step of AdamW on [S, n] with gradients clipped to the norm `most` (0: no clipping).

    `norms` [S] are those of the gradients; `schedule` is (rate, 1 - beta1^t, 1 - beta2^t).
    """
    seeds, size = value.shape
    _adam_kernel[triton.cdiv(size, 1024), seeds](
        value, work, grad, *moments, norms, schedule, size, most, decay, *betas, eps,
        CLIP=most > 0, COPY=work.data_ptr() != value.data_ptr(), BLOCK=1024, num_warps=4,
    )  # fmt: skip


@triton.jit
def _norm_kernel(x, out, size, out_stride, programs, BLOCK: tl.constexpr):
    """The norm of the elements that one program reads."""
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
    """As `plain.norms`, for gradients [S, n] each."""
    seeds = len(grads[0])
    each = [min(triton.cdiv(grad.shape[1], block), 4 * PROGRAMS) for grad in grads]
    partial = torch.empty(seeds, sum(each), device=grads[0].device)
    start = 0
    for grad, programs in zip(grads, each, strict=True):
        _norm_kernel[programs, seeds](
            grad, partial[:, start:], grad.shape[1], sum(each), programs,
            BLOCK=block, num_warps=4,
        )  # fmt: skip
        start += programs
    return torch.linalg.vector_norm(partial, dim=1)
