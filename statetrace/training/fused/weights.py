"""The parameters of several models of one shape as stacked tensors, of which they become views.

Cost: one buffer per kind of parameter, so that the optimizer needs few calls; on a CPU one tensor
per matrix, contiguous over the seeds, which makes its products faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from statetrace.training.fused.shape import ModelShape

Tensors = dict[str, torch.Tensor]
Named = Mapping[str, torch.nn.Parameter]


def kind(role: str) -> str:
    """The kind of a parameter: `matrix` (of a block or of the classifier; its products are computed
    in the working precision), `table` (embeddings and head) or `vector` (no weight decay)."""
    if role in ("tokens", "positions", "head"):
        return "table"
    return "matrix" if role.endswith("w") and "norm" not in role else "vector"


@dataclass(frozen=True)
class ParameterGroup:
    """All parameters of one kind.

    Attributes:
        kind: see `kind`.
        value, grad, first, second: lists of equally shaped tensors: values and moments in float32,
            gradients of matrices in the working precision; one [S, n], or one [S, ...] for each.
        work: the values in the working precision; the values themselves if that is float32.
    """

    kind: str
    value: list[torch.Tensor]
    grad: list[torch.Tensor]
    first: list[torch.Tensor]
    second: list[torch.Tensor]
    work: list[torch.Tensor]

    def select(self, seeds: slice) -> ParameterGroup:
        """The group of some seeds, sharing memory."""
        names = ("value", "grad", "first", "second", "work")
        return ParameterGroup(
            self.kind, *([t[seeds] for t in getattr(self, name)] for name in names)
        )

    @property
    def updated(self) -> list[torch.Tensor]:
        """The tensors that an optimizer step changes."""
        return [*self.value, *self.first, *self.second, *self.work]


class StackedWeights:
    """Stacked parameters, gradients and moments.

    `joined` puts matrices into one buffer too, as is always done on a GPU.

    Attributes:
        groups: what the optimizer works on.
        value, work, grad, first, second: role -> [S, *shape], views of the groups.
    """

    def __init__(
        self, named: Sequence[Named], shape: ModelShape, dtype: torch.dtype, joined: bool = False
    ) -> None:
        """`named` has the parameters of each seed by name; they become views."""
        self.seeds, self.shape, self.dtype = len(named), shape, dtype
        self._joined = joined or next(iter(named[0].values())).is_cuda
        self.value: Tensors = {}
        self.work: Tensors = {}
        self.grad: Tensors = {}
        self.first: Tensors = {}
        self.second: Tensors = {}
        self.groups = [self._gather(which, named) for which in ("matrix", "table", "vector")]
        for number, parameters in enumerate(named):
            for role, name in shape.names.items():
                parameters[name].data = self.value[role][number]

    def _gather(self, which: str, named: Sequence[Named]) -> ParameterGroup:
        roles = [role for role in self.shape.names if kind(role) == which]
        stacks = [torch.stack([p[self.shape.names[r]].detach() for p in named]) for r in roles]
        dtype = self.dtype if which == "matrix" else torch.float32
        joined = which != "matrix" or self._joined
        value = [torch.cat([s.flatten(1) for s in stacks], dim=1)] if joined else stacks
        grad = [torch.zeros_like(v, dtype=dtype) for v in value]
        first, second = ([torch.zeros_like(v) for v in value] for _ in range(2))
        work = value if dtype == torch.float32 else [v.to(dtype) for v in value]
        group = ParameterGroup(which, value, grad, first, second, work)
        for name in ("value", "grad", "first", "second", "work"):
            tensors = getattr(group, name)
            views = _views(tensors[0], stacks) if joined else tensors
            getattr(self, name).update(zip(roles, views, strict=True))
        return group

    def select(self, seeds: slice) -> tuple[Tensors, Tensors]:
        """`work` and `grad` of some seeds, for a forward and a backward pass."""
        work = {role: tensor[seeds] for role, tensor in self.work.items()}
        return work, {role: tensor[seeds] for role, tensor in self.grad.items()}


def _views(joined: torch.Tensor, like: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Split [S, n] into the stacks it was joined from."""
    start = 0
    for stack in like:
        size = stack[0].numel()
        yield joined[:, start : start + size].unflatten(1, stack.shape[1:])
        start += size
