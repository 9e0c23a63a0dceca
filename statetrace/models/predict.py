"""The forward pass that training, evaluation and lenses share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from statetrace.models.products import fast_products


def predict(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Logits [B, T, vocab] in float32."""
    logits: torch.Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits.float()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluate without gradients and dropout; the mode of every module is restored afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad(), fast_products(model):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
