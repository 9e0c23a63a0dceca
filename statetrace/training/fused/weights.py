"""The parameters of several models of one shape as stacked tensors, which the models go on using.

Cost: one buffer per kind of parameter, so that the optimizer is few calls; on a CPU a tensor for
each matrix, contiguous for several seeds as well, as its products want it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from statetrace.training.fused.shape import ModelShape

Tensors = dict[str, torch.Tensor]
Named = Mapping[str, torch.nn.Parameter]


def kind(role: str) -> str:
    """Which of the three kinds a parameter is: `matrix` (of a block or of the classifier: its
    products are taken in the working precision), `table` (embeddings and head), `vector` (no weight
    decay)."""
    if role in ("tokens", "positions", "head"):
        return "table"
    return "matrix" if role.endswith("w") and "norm" not in role else "vector"


@dataclass(frozen=True)
class Part:
    """All parameters of one kind.

    Attributes:
        kind: see `kind`.
        value, grad, first, second: lists of equally shaped tensors: values and moments in float32,
            gradients of matrices in the working precision; one [S, n], or one [S, ...] for each.
        work: the values in the working precision; the values themselves where that is float32.
    """

    kind: str
    value: list[torch.Tensor]
    grad: list[torch.Tensor]
    first: list[torch.Tensor]
    second: list[torch.Tensor]
    work: list[torch.Tensor]

    def some(self, seeds: slice) -> Part:
        """The same of some seeds, sharing memory."""
        names = ("value", "grad", "first", "second", "work")
        return Part(self.kind, *([t[seeds] for t in getattr(self, name)] for name in names))

    @property
    def changing(self) -> list[torch.Tensor]:
        """What a step of the optimizer changes."""
        return [*self.value, *self.first, *self.second, *self.work]


class StackedWeights:
    """Stacked parameters, gradients and moments.

    `joined` puts matrices into one buffer too, as on a GPU they always are.

    Attributes:
        parts: what the optimizer works on.
        value, work, grad, first, second: role -> [S, *shape], views of the parts.
    """

    def __init__(
        self, named: Sequence[Named], shape: ModelShape, dtype: torch.dtype, joined: bool = False
    ) -> None:
        """`named` are the parameters of each seed by name; they become views."""
        self.seeds, self.shape, self.dtype = len(named), shape, dtype
        self._joined = joined or next(iter(named[0].values())).is_cuda
        self.value: Tensors = {}
        self.work: Tensors = {}
        self.grad: Tensors = {}
        self.first: Tensors = {}
        self.second: Tensors = {}
        self.parts = [self._gather(which, named) for which in ("matrix", "table", "vector")]
        for number, one in enumerate(named):
            for role, name in shape.names.items():
                one[name].data = self.value[role][number]

    def _gather(self, which: str, named: Sequence[Named]) -> Part:
        roles = [role for role in self.shape.names if kind(role) == which]
        stacks = [torch.stack([one[self.shape.names[r]].detach() for one in named]) for r in roles]
        dtype = self.dtype if which == "matrix" else torch.float32
        joined = which != "matrix" or self._joined
        value = [torch.cat([s.flatten(1) for s in stacks], dim=1)] if joined else stacks
        part = Part(
            which,
            value,
            [torch.zeros_like(v, dtype=dtype) for v in value],
            [torch.zeros_like(v) for v in value],
            [torch.zeros_like(v) for v in value],
            value if dtype == torch.float32 else [v.to(dtype) for v in value],
        )
        for name in ("value", "grad", "first", "second", "work"):
            tensors = getattr(part, name)
            views = _views(tensors[0], stacks) if joined else tensors
            getattr(self, name).update(zip(roles, views, strict=True))
        return part

    def some(self, seeds: slice) -> SomeWeights:
        return SomeWeights(
            {role: tensor[seeds] for role, tensor in self.work.items()},
            {role: tensor[seeds] for role, tensor in self.grad.items()},
        )


@dataclass(frozen=True)
class SomeWeights:
    """What a forward and a backward pass need of some seeds."""

    work: Tensors
    grad: Tensors


def _views(joined: torch.Tensor, like: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """[S, n] as the pieces it was put together from."""
    start = 0
    for one in like:
        size = one[0].numel()
        yield joined[:, start : start + size].unflatten(1, one.shape[1:])
        start += size
