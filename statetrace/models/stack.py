"""One computation over several models of one shape at once.

Purpose: a small model keeps a GPU busy with kernel launches, not with arithmetic. `ModelStack.each`
calls a function of a model once for all models, with their parameters stacked (torch.func.vmap):
every matrix product is a batched one. Numbers equal those of one model after the other up to
rounding. Cost: a copy of all parameters. Caveat: to the function a stack looks like a single model,
but it must not branch on numbers that depend on parameters, or take gradients. Families that cannot
be evaluated piece by piece are computed one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from statetrace.models.families import anatomy
from statetrace.models.memory import in_pieces
from statetrace.models.predict import evaluating, predict
from statetrace.models.products import usual_products

NUMBERS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""Entries of the residual stream, over all models, that are computed at once: what fits the cache
of a CPU, and a tenth of a GPU's memory."""


class ModelStack:
    """Models of one shape on one device. `first` stands for all of them where only the shape
    matters."""

    def __init__(self, models: Sequence[Any]) -> None:
        self.models, self.first = models, models[0]
        self._state: dict[str, Tensor] = {}
        several = len(models) > 1 and anatomy(self.first).fast
        if several and all(alike(self.first, model) for model in models):
            self._state = _stacked(models)

    def each(self, compute: Callable[[Any], Tensor], positions: int) -> Tensor:
        """compute(model) of every model, stacked [S, ...]; `positions` is how many it holds of one
        model at once."""
        most = self._most(positions)
        if most < 2:
            return torch.stack([_evaluated(compute, model) for model in self.models])
        call, parts = _Call(self.first, compute), []

        def work(start: int, stop: int) -> None:
            some = {name: tensor[start:stop] for name, tensor in self._state.items()}
            parts.append(vmap(lambda state: functional_call(call, state, ()))(some))

        with evaluating(self.first), usual_products():
            in_pieces(len(self.models), most, work)
        return torch.cat(parts)

    def predict(self, model: Any, tokens: Tensor) -> Tensor:
        """As `predict`, inside `each`."""
        return anatomy(model).forward(tokens).float() if self._state else predict(model, tokens)

    def _most(self, positions: int) -> int:
        """How many models are computed at once."""
        if not self._state:
            return 1
        device = next(iter(self._state.values())).device.type
        numbers = NUMBERS.get(device, NUMBERS["cuda"])
        return numbers // (positions * anatomy(self.first).width)


def _stacked(models: Sequence[Any]) -> dict[str, Tensor]:
    """All parameters and buffers [S, ...], by their names in `_Call`."""
    tensors = [dict(model.named_parameters()) | dict(model.named_buffers()) for model in models]
    return {
        f"model.{name}": torch.stack([of_model[name].detach() for of_model in tensors])
        for name in tensors[0]
    }


def _evaluated(compute: Callable[[Any], Tensor], model: Any) -> Tensor:
    with evaluating(model):
        return compute(model)


class _Call(nn.Module):
    """A function of a model as a module whose parameters are those of the model."""

    def __init__(self, model: Any, compute: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.model, self._compute = model, compute

    def forward(self) -> Tensor:
        return self._compute(self.model)


def alike(model: Any, other: Any) -> bool:
    """Whether two models differ in the values of their parameters alone."""
    if model is other:
        return True
    configs = [each.config.to_dict() | {"_name_or_path": ""} for each in (model, other)]
    return type(model) is type(other) and configs[0] == configs[1]
