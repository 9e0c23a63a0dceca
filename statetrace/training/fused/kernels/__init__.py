"""The operations of the fused training step as Triton kernels: one pass over memory each.

A large GPU reads a residual stream of 128 x 101 positions in microseconds; the cost is in reading
it ten times. Attention holds one head of one sequence at once, which short sequences allow: nothing
is streamed, and the backward pass recomputes the weights. Sums over rows (gradients of biases and
norms) have a fixed order: partial sums, then their sum.

Caveat: attention supports at most `LONGEST` positions and heads `WIDEST` wide (`fits`); beyond that
`plain` is used, which takes more memory.
"""

from statetrace.training.fused.kernels.adam import adam, norms
from statetrace.training.fused.kernels.attention import attention, attention_back, fits
from statetrace.training.fused.kernels.dropout import dropped
from statetrace.training.fused.kernels.gelu import gelu, gelu_back
from statetrace.training.fused.kernels.loss import cross_entropy
from statetrace.training.fused.kernels.narrow import Mlp, mlp, mlp_back, project, project_back
from statetrace.training.fused.kernels.norm import add_norm, add_norm_back
from statetrace.training.fused.kernels.sums import columns, finish_sums
from statetrace.training.fused.kernels.tokens import by_token
from statetrace.training.fused.kernels.transposed import transposed

__all__ = [
    "Mlp",
    "adam",
    "add_norm",
    "add_norm_back",
    "attention",
    "attention_back",
    "by_token",
    "columns",
    "cross_entropy",
    "dropped",
    "finish_sums",
    "fits",
    "gelu",
    "gelu_back",
    "mlp",
    "mlp_back",
    "norms",
    "project",
    "project_back",
    "transposed",
]
