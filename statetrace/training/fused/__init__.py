"""The fused training step: forward, backward and AdamW of GPT-2 and Pythia for one or many seeds.

Purpose: a small model in transformers spends most of its step on call overhead. Here a step is a
fixed sequence of matrix products and fused operations, with the parameters of all seeds in one
tensor, so that sixteen models need about as many calls as one. On a GPU all of it, optimizer
included, is one CUDA graph. A linear classifier may be attached after one block
(training/auxiliary.py).

`transformer.py` is the forward and backward pass, `narrow.py` a faster one for many narrow models;
`plain.py` and `kernels/` are their operations in torch and in Triton. `weights.py` moves the
parameters of models into stacked tensors, of which they become views, and `adam.py` updates them.

Caveat: numbers equal those of the transformers model up to rounding, not bit for bit, and dropout
masks differ. Only `gpt2` and `pythia` are supported.
"""

from statetrace.training.fused.step import FusedStep, unsupported_reason, unsupported_size

__all__ = ["FusedStep", "unsupported_reason", "unsupported_size"]
