"""A training step written out: forward, backward and AdamW of GPT-2 and Pythia, for one seed or for
many at once.

Purpose: transformers' models are made to be read and changed, and a small one spends most of its
step on calling things. Here the step is a straight line of a few matrix products and fused
operations, with every parameter of several seeds in one tensor, so that sixteen models cost little
more calls than one. On a GPU the whole of it, optimizer included, becomes one CUDA graph. A linear
classifier may read the residual stream behind one block (training/auxiliary.py).

`transformer.py` is the line itself; `plain.py` and `kernels/` are the operations in torch and in
Triton; `weights.py` moves a model's parameters into stacked tensors (the model goes on seeing them)
and `adam.py` changes them.

Caveat: numbers equal those of the transformers model up to rounding, not bit for bit; dropout masks
are others. Only `gpt2` and `pythia` are written out.
"""

from statetrace.training.fused.step import Step, beyond, why_not

__all__ = ["Step", "beyond", "why_not"]
