"""The forward pass that training, evaluation and lenses share."""

from __future__ import annotations

import torch
from torch import nn


def predict(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Logits [B, T, vocab] in float32."""
    logits: torch.Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits.float()
