"""In which order a word is multiplied: which earlier product each position appends to, by layer.

A layer is an array [positions]: position t multiplies what position layer[t] holds with what it
holds itself; where layer[t] is t, nothing changes. Positions hold their own action at first, and
after the last layer every position up to the length holds its state.

- strided: products of the last k actions by doubling, then k more states per layer, each from the
  state k positions before it: log2 k + n/k - 1 layers. With k = 1 this is the sequential algorithm,
  with k = n the associative one.
- chunked: a sequential fold in every chunk of k actions at once, then one over the chunks:
  k - 1 + n/k - 1 layers.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError

FOLDS = ("sequential", "associative", "strided", "chunked")

Layer = NDArray[np.int64]


@cache
def fold_layers(
    name: str, length: int, stride: int = 1, positions: int | None = None
) -> tuple[Layer, ...]:
    """The layers of a fold of `length` actions, for that many positions or more."""
    here = np.arange(positions or length)
    if name == "chunked":
        inner = [
            np.where(here % stride == i, here - 1, here) for i in range(1, min(stride, length))
        ]
    else:
        stride = {"sequential": 1, "associative": length}.get(name, stride)
        if name == "strided" and stride & (stride - 1):
            raise StatetraceError(
                f"a strided fold with stride {stride} is not supported; use a power of two, or a "
                "chunked fold"
            )
        doublings = range((min(stride, length) - 1).bit_length())
        inner = [np.where(here >= 2**i, here - 2**i, here) for i in doublings]
    outer = []
    for start in range(stride, length, stride):
        source = start - 1 if name == "chunked" else here - stride
        outer.append(np.where((here >= start) & (here < start + stride), source, here))
    return (*inner, *outer)
