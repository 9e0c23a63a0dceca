"""Rows summed by their token: a product with a matrix of ones and zeros. A general product is slow
here, with few output rows and very long sums."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from statetrace.training.fused import plain
from statetrace.training.fused.kernels.sums import PROGRAMS

MOST_TOKENS = 128
"""Sums that a program holds at once; larger vocabularies use a general product."""


@triton.jit
def _by_token_kernel(
    x, tokens, sums, rows, width, vocab, programs,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, VOCAB: tl.constexpr,
):  # fmt: skip
    """Every program sums some of the rows."""
    program = tl.program_id(0)
    seed = tl.program_id(2)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    word = tl.arange(0, VOCAB)
    total = tl.zeros([VOCAB, COLUMNS], dtype=tl.float32)
    for tile in range(program, tl.cdiv(rows, ROWS), programs):
        row = tile * ROWS + tl.arange(0, ROWS)
        token = tl.load(tokens + seed.to(tl.int64) * rows + row, mask=row < rows, other=-1)
        at = (seed.to(tl.int64) * rows + row)[:, None] * width + column[None, :]
        inside = (row < rows)[:, None] & (column < width)[None, :]
        value = tl.load(x + at, mask=inside, other=0.0)
        here = (word[:, None] == token[None, :]).to(value.dtype)
        total = tl.dot(here, value, total, input_precision=PRECISION)
    out = ((seed * programs + program) * vocab + word).to(tl.int64)[:, None] * width
    inside = (word < vocab)[:, None] & (column < width)[None, :]
    tl.store(sums + out + column[None, :], total, mask=inside)


def by_token(x: Tensor, tokens: Tensor, vocab: int) -> Tensor:
    """As `plain.by_token`."""
    seeds, rows, width = x.shape
    if vocab > MOST_TOKENS:
        return plain.by_token(x, tokens, vocab)
    blocks = triton.cdiv(width, 64)
    programs = max(1, min(triton.cdiv(rows, 64), PROGRAMS // (seeds * blocks)))
    sums = torch.empty(seeds, programs, vocab, width, device=x.device)
    _by_token_kernel[programs, blocks, seeds](
        x.contiguous(), tokens.contiguous(), sums, rows, width, vocab, programs,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", ROWS=64, COLUMNS=64,
        VOCAB=max(16, triton.next_power_of_2(vocab)), num_warps=4,
    )  # fmt: skip
    return sums.sum(1)
