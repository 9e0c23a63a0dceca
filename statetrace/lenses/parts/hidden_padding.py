"""Hide padding from a model, so that its answers equal those on the unpadded text.

Purpose: lenses require action t at the same positions in every sequence, but sentences differ in
length. Padding is masked in attention and skipped by position ids, so that all other tokens behave
as if it were absent.
Cost: such a model is patched with hooks and full forward passes.
Caveat: valid only if positions interact through masked attention alone. `check_hidden` compares
with the unpadded text and refuses other models, such as recurrent ones.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from statetrace.errors import StatetraceError
from statetrace.tasks.plain_text import PlainText
from statetrace.tasks.word_problem import WordProblem

CLOSE = 1e-3
"""Largest difference of logits, relative to their spread, that is attributed to rounding."""


class HiddenPadding(nn.Module):
    """Wraps a model; `config` has another model type, because the parts of the model must not be
    called without the mask."""

    def __init__(self, inner: Any, pad: int) -> None:
        super().__init__()
        self.inner, self.pad = inner, pad
        self.config = copy.copy(inner.config)
        self.config.model_type = f"{inner.config.model_type} with hidden padding"

    def forward(self, input_ids: Tensor, **rest: Any) -> Any:
        visible = input_ids != self.pad  # [B, T]
        positions = (visible.cumsum(-1) - 1).clamp(min=0)
        length = input_ids.shape[1]
        index = torch.arange(length, device=input_ids.device)
        attended = (index[:, None] >= index) & visible[:, None]  # [B, T, T]
        attended |= torch.eye(length, dtype=torch.bool, device=input_ids.device)  # no empty rows
        dtype = self.dtype
        mask = torch.zeros(attended.shape, dtype=dtype, device=input_ids.device)
        mask = mask.masked_fill(~attended, torch.finfo(dtype).min)[:, None]  # [B, 1, T, T]
        return self.inner(input_ids, attention_mask=mask, position_ids=positions, **rest)

    def around(self, inner: Any) -> HiddenPadding:
        """The same wrapper around another model of the same class."""
        return HiddenPadding(inner, self.pad)

    @property
    def dtype(self) -> torch.dtype:
        return self.inner.dtype

    def get_input_embeddings(self) -> nn.Module:
        return self.inner.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        return self.inner.get_output_embeddings()

    def set_attn_implementation(self, name: str) -> None:
        self.inner.set_attn_implementation(name)


@torch.no_grad()
def check_hidden(model: HiddenPadding, task: WordProblem, where: str) -> None:
    """Refuse a model whose answers to padded and unpadded text differ."""
    vocabulary = task.vocabulary
    assert isinstance(vocabulary, PlainText)
    actions = torch.arange(min(task.length, task.group.order))[None]
    padded = vocabulary.encode(actions.to(next(model.parameters()).device))
    try:
        answered = model(padded, use_cache=False).logits[0, padded[0] != model.pad]
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise _refused(model, where, f"{type(error).__name__}: {error}") from None
    plain = model.inner(vocabulary.unpadded(padded[0])[None], use_cache=False).logits[0]
    difference = float((answered - plain).abs().max() / (1e-6 + plain.std()))
    if not difference < CLOSE:
        raise _refused(model, where, f"its answers differ by {difference:.2g} standard deviations")


def _refused(model: HiddenPadding, where: str, why: str) -> StatetraceError:
    first = why.splitlines()[0][:200]
    return StatetraceError(
        f"padding cannot be hidden from the model in '{where}' ({model.inner.config.model_type}; "
        f"{first}); use a model whose positions interact through masked attention alone, or "
        "--padding visible if it was trained with padding"
    )
