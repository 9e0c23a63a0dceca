"""Matrix products of forward passes on a CPU by oneDNN.

Purpose: torch computes products in float32 with MKL, which uses no AVX-512 on processors that are
not Intel's. oneDNN, which torch includes, does, and then takes 0.4 of the time.
Cost: two microseconds per operation of torch.
Caveat: torch's compiler uses this operator but torch does not document it. So it is used only if it
gives the right numbers in a trial. It has no gradients and no rule for torch.func.vmap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode


@contextmanager
def fast_products(model: nn.Module) -> Iterator[None]:
    """Compute the linear layers of the model by oneDNN, where that helps."""
    weight = next(model.parameters(), None)
    if _here.active or weight is None or weight.device.type != "cpu" or not usable():
        yield
        return
    _here.active = True
    try:
        with _Products():
            yield
    finally:
        _here.active = False


@contextmanager
def usual_products() -> Iterator[None]:
    """Leave all products to torch, for vmap."""
    before, _here.off = _here.off, True
    try:
        yield
    finally:
        _here.off = before


class _Thread(threading.local):
    active = off = False


_here = _Thread()


class _Products(TorchFunctionMode):
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is functional.linear and not kwargs and _suits(*args):
            return _product(*args)
        if function is torch.addmm and not kwargs and _suits(args[1], args[2], args[0]):
            return _product(args[1], args[2].t(), args[0])
        return function(*args, **(kwargs or {}))


def activated(x: Tensor, layer: nn.Linear, gelu: str) -> Tensor:
    """gelu(layer(x)), in one step where `fast_products` applies; `gelu` is "none" or "tanh"."""
    if _here.active and _suits(x, layer.weight, layer.bias):
        return _product(x, layer.weight, layer.bias, "gelu", gelu)
    return functional.gelu(layer(x), approximate=gelu)


def _suits(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    """oneDNN reads a bias as if it were contiguous, and takes no empty rows."""
    usual = _here.off or torch.is_grad_enabled()
    plain = bias is None or (bias.ndim == 1 and bias.is_contiguous())
    return x.dtype is weight.dtype is torch.float32 and plain and x.shape[-1] > 0 and not usual


def _product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, then: str = "none", kind: str = ""
) -> Tensor:
    """x [..., D], weight [E, D], bias [E] -> [..., E], and the function `then` of it."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], kind)
    return product


@cache
def usable() -> bool:
    """Whether oneDNN is there, is expected to be faster, and agrees with MKL."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    x, weight, bias = torch.arange(24.0).view(2, 3, 4), torch.eye(4)[:2] + 1, torch.arange(2.0)
    try:
        with torch.no_grad():
            return torch.equal(_product(x, weight, bias), functional.linear(x, weight, bias))
    except (RuntimeError, AttributeError):
        return False
