"""GPT-2: learned positions, sequential blocks, queries, keys and values in one projection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrace.models.anatomy import Anatomy
from statetrace.models.families.family import Family, Size


class GPT2Anatomy(Anatomy):
    """Positions are part of the embedding, so `qkv` ignores them."""

    fast = True

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        body = self._body = model.transformer
        self.name_parts(body.h, "attn", "c_proj", body.wte, body.ln_f, model.lm_head)

    def embed(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        resid: Tensor = self._body.wte(tokens) + self._body.wpe(positions[None])
        return resid

    def qkv(self, layer: int, resid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        block = self.blocks[layer]
        parts = block.attn.c_attn(block.ln_1(resid)).split(self.width, dim=2)  # three [B, T, D]
        heads = (*resid.shape[:-1], -1, self.head_width)
        q, k, v = (part.view(heads).transpose(1, 2) for part in parts)
        return q, k, v

    def mlp_out(self, layer: int, resid: Tensor, attn_out: Tensor) -> Tensor:
        block = self.blocks[layer]
        out: Tensor = block.mlp(block.ln_2(attn_out + resid))
        return out

    def combine(self, layer: int, resid: Tensor, attn_out: Tensor, mlp_out: Tensor) -> Tensor:
        return (attn_out + resid) + mlp_out


def fields(size: Size, positions: int) -> dict[str, Any]:
    return {
        "n_layer": size.layers,
        "n_embd": size.width,
        "n_head": size.heads,
        "n_inner": 4 * size.width,
        "n_positions": positions,
        # the function published as gelu_new, in one kernel instead of eight
        "activation_function": "gelu_pytorch_tanh",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    }


FAMILY = Family(
    name="gpt2",
    model_type="gpt2",
    sizes={
        "distilgpt2": Size(layers=6, width=768, heads=12, positions=1024),
        "gpt2": Size(layers=12, width=768, heads=12, positions=1024),
        "gpt2-medium": Size(layers=24, width=1024, heads=16, positions=1024),
        "gpt2-large": Size(layers=36, width=1280, heads=20, positions=1024),
        "gpt2-xl": Size(layers=48, width=1600, heads=25, positions=1024),
    },
    fields=fields,
    dropout=0.1,
    dropout_fields=("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    anatomy=GPT2Anatomy,
)
