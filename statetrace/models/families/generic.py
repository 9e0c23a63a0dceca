"""Any other Hugging Face causal language model: its parts are found by names and shapes.

Purpose: hooks for families without a file of their own.
Cost: one pass over the modules; `attention_weights` is one forward pass with eager attention.
Caveat: a guess. A model without recognisable blocks, embedding and unembedding is refused;
attention, MLP, projection and final norm are None if none is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from statetrace.errors import StatetraceError
from statetrace.models.anatomy import Anatomy

MLP_NAMES = ("mlp", "feed_forward", "ffn", "ff")
PROJECTION_NAMES = ("o_proj", "out_proj", "c_proj", "dense", "wo", "out_lin")
FINAL_NORM_NAMES = ("norm", "ln_f", "norm_f", "final_layer_norm", "final_layernorm", "final_norm")


class GenericAnatomy(Anatomy):
    """`fast` is False: only the modules, `forward` (the model itself) and `attention_weights`."""

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        for name in ("num_hidden_layers", "hidden_size"):
            if not isinstance(getattr(config, name, None), int):
                raise _not_found(model, f"its configuration has no {name}")
        super().__init__(model)
        parent, blocks = _block_list(model, self.layers)
        self.blocks = tuple(blocks)
        self.embedding = model.get_input_embeddings()
        self.unembedding = model.get_output_embeddings()
        if self.embedding is None or self.unembedding is None:
            raise _not_found(model, "it does not name its input and output embeddings")
        self.attention = _each(self.blocks, _attention)
        self.mlp = _each(self.blocks, lambda block: _child(block, MLP_NAMES))
        self.attention_projection = None
        if self.attention is None:
            self.heads = self.head_width = self.n_kv_heads = None
        else:
            self.attention_projection = _each(self.attention, _projection)
        self.final_norm = _child(parent, FINAL_NORM_NAMES)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model(tokens).logits
        return logits

    @torch.no_grad()
    def attention_weights(self, tokens: Tensor) -> Tensor:
        with _eager(self.model):
            output = self.model(tokens, use_cache=False, output_attentions=True)
        weights = getattr(output, "attentions", None)
        if not weights or any(layer is None for layer in weights):
            raise StatetraceError(
                f"{self.model.config.model_type!r} models do not return their attention weights; "
                "use a model whose every block has softmax attention"
            )
        return torch.stack(tuple(weights))


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Only the eager implementation returns weights; the previous one is restored in any case."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
        yield
    finally:
        model.set_attn_implementation(before)


def _block_list(model: nn.Module, layers: int) -> tuple[nn.Module, nn.ModuleList]:
    """The list of `layers` modules with the most parameters, and the module that holds it."""
    candidates = [
        (parent, child)
        for parent in model.modules()
        for child in parent.children()
        if isinstance(child, nn.ModuleList) and len(child) == layers
    ]
    if not candidates:
        raise _not_found(model, f"it has no list of {layers} modules")
    return max(candidates, key=lambda pair: sum(p.numel() for p in pair[1].parameters()))


def _each(
    modules: tuple[nn.Module, ...], find: Callable[[nn.Module], nn.Module | None]
) -> tuple[nn.Module, ...] | None:
    parts = tuple(part for module in modules if (part := find(module)) is not None)
    return parts if len(parts) == len(modules) else None


def _child(module: nn.Module, names: tuple[str, ...]) -> nn.Module | None:
    children = dict(module.named_children())
    return next((children[name] for name in names if name in children), None)


def _attention(block: nn.Module) -> nn.Module | None:
    """The outermost module of the block whose class name ends in Attention."""
    parts = list(block.named_modules())[1:]
    parts.sort(key=lambda part: part[0].count("."))
    return next((m for _, m in parts if type(m).__name__.endswith("Attention")), None)


def _projection(attention: nn.Module) -> nn.Module | None:
    holders = [attention, *attention.children()]  # some families wrap their attention once more
    return next((m for h in holders if (m := _child(h, PROJECTION_NAMES)) is not None), None)


def _not_found(model: Any, what: str) -> StatetraceError:
    kind = model.config.model_type
    return StatetraceError(
        f"the parts of a {kind!r} model cannot be found ({what}); register a family of your own "
        "with an Anatomy that names its blocks, embedding and unembedding "
        "(docs/how-to/own-family.md)"
    )
