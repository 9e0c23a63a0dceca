"""The mean cross entropy and its gradient, in one pass over the logits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.tasks.batch import UNSUPERVISED


@triton.jit
def _cross_entropy_kernel(
    logits, targets, counts, d, sums, rows, wide, vocab, programs,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Targets below zero are unsupervised and contribute nothing."""
    program = tl.program_id(0)
    seed = tl.program_id(1)
    row = program * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    at = (seed.to(tl.int64) * rows + row)[:, None] * wide + column[None, :]
    inside = (row < rows)[:, None] & (column < wide)[None, :]
    value = tl.load(logits + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.where((column < vocab)[None, :], value, -1e30)
    target = tl.load(targets + seed.to(tl.int64) * rows + row, mask=row < rows, other=-1)
    share = tl.where(target >= 0, 1.0 / tl.load(counts + seed).to(tl.float32), 0.0)
    value -= tl.max(value, axis=1)[:, None]
    odds = tl.exp(value)
    total = tl.sum(odds, axis=1)
    correct = column[None, :] == target[:, None]
    grad = (odds / total[:, None] - tl.where(correct, 1.0, 0.0)) * share[:, None]
    tl.store(d + at, grad.to(d.dtype.element_ty), mask=inside)
    loss = (tl.log(total) - tl.sum(tl.where(correct, value, 0.0), axis=1)) * share
    tl.store(sums + seed * programs + program, tl.sum(loss, axis=0))


def cross_entropy(logits: Tensor, targets: Tensor, vocab: int) -> tuple[Tensor, Tensor]:
    """Mean losses [S] over the supervised targets [S, N], and the gradient of the logits
    [S, N, wide], which is zero beyond the first `vocab`."""
    seeds, rows, wide = logits.shape
    columns = triton.next_power_of_2(wide)
    lines = max(1, 1024 // columns)
    programs = triton.cdiv(rows, lines)
    d = torch.empty_like(logits)
    sums = torch.empty(seeds, programs, device=logits.device)
    _cross_entropy_kernel[programs, seeds](
        logits, targets.contiguous(), (targets != UNSUPERVISED).sum(1), d, sums, rows, wide,
        vocab, programs,
        ROWS=lines, COLUMNS=columns, num_warps=4,
    )  # fmt: skip
    return sums.sum(1), d
