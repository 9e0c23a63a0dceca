"""The operations of the program as Triton kernels: one pass over memory each.

A residual stream of 128 x 101 positions is read in microseconds on a large GPU; what costs is
reading it ten times. Attention holds one head of one sequence at once, which is what short
sequences allow: nothing is streamed, and the way back computes the weights anew. Sums over rows
(gradients of biases and norms) are taken in a fixed order: partial sums, then their sum.

Caveat: attention takes at most `LONGEST` positions and heads `WIDEST` wide (`fits`); `plain` takes
over beyond, which costs memory.
"""

from statetrace.training.fused.kernels.adam import adam, norms
from statetrace.training.fused.kernels.attention import attention, attention_back, fits
from statetrace.training.fused.kernels.dropout import dropped
from statetrace.training.fused.kernels.gelu import gelu, gelu_back
from statetrace.training.fused.kernels.loss import cross_entropy
from statetrace.training.fused.kernels.norm import add_norm, add_norm_back
from statetrace.training.fused.kernels.sums import columns, settle
from statetrace.training.fused.kernels.tokens import by_token
from statetrace.training.fused.kernels.transposed import turned

__all__ = [
    "adam",
    "add_norm",
    "add_norm_back",
    "attention",
    "attention_back",
    "by_token",
    "columns",
    "cross_entropy",
    "dropped",
    "fits",
    "gelu",
    "gelu_back",
    "norms",
    "settle",
    "turned",
]
