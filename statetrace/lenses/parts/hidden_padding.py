"""A model that is not shown the padding of its input: it computes what it would on the text alone.

Purpose: lenses want action t at the same positions in every sequence, and people's sentences differ
in length. Padding is taken out of everyone's attention and is not counted by positions, so that
each other token sees and is seen exactly as if the padding were not there.
Cost: the plain road everywhere: hooks and whole forward passes.
Caveat: only for models whose every mixing of positions is attention under a mask. `check_hidden`
compares with the text alone and refuses all others, such as recurrent ones.
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
"""Largest difference of logits, as a share of their spread, that rounding may make."""


class HiddenPadding(nn.Module):
    """Called like the model inside; `config` is its own under another type, as its parts must not
    be called one by one, past the mask."""

    def __init__(self, inner: Any, pad: int) -> None:
        super().__init__()
        self.inner, self.pad = inner, pad
        self.config = copy.copy(inner.config)
        self.config.model_type = f"{inner.config.model_type} with hidden padding"

    def forward(self, input_ids: Tensor, **rest: Any) -> Any:
        shown = input_ids != self.pad  # [B, T]
        positions = (shown.cumsum(-1) - 1).clamp(min=0)
        length = input_ids.shape[1]
        here = torch.arange(length, device=input_ids.device)
        seen = (here[:, None] >= here) & shown[:, None]  # [B, T, T]
        seen |= torch.eye(length, dtype=torch.bool, device=input_ids.device)  # or a row has nothing
        dtype = self.dtype
        mask = torch.zeros(seen.shape, dtype=dtype, device=input_ids.device)
        mask = mask.masked_fill(~seen, torch.finfo(dtype).min)[:, None]  # [B, 1, T, T]
        return self.inner(input_ids, attention_mask=mask, position_ids=positions, **rest)

    def around(self, inner: Any) -> HiddenPadding:
        """The same for another model of the kind."""
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
    """Refuse a model that does not answer the padded text as it does the plain one."""
    words = task.vocabulary
    assert isinstance(words, PlainText)
    actions = torch.arange(min(task.length, task.group.order))[None]
    padded = words.encode(actions.to(next(model.parameters()).device))
    try:
        answered = model(padded, use_cache=False).logits[0, padded[0] != model.pad]
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise _refused(model, where, f"{type(error).__name__}: {error}") from None
    plain = model.inner(words.unpadded(padded[0])[None], use_cache=False).logits[0]
    apart = float((answered - plain).abs().max() / (1e-6 + plain.std()))
    if not apart < CLOSE:
        raise _refused(model, where, f"its answers differ by {apart:.2g} standard deviations")


def _refused(model: HiddenPadding, where: str, why: str) -> StatetraceError:
    first = why.splitlines()[0][:200]
    return StatetraceError(
        f"padding cannot be hidden from the model in '{where}' ({model.inner.config.model_type}; "
        f"{first}); use a model whose blocks mix positions by attention under a mask, or, if it "
        "was trained with padding, --padding visible"
    )
