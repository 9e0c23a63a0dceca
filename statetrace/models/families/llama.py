"""Llama: rotary positions, RMS norms, a gated MLP, key and value heads that may be shared."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import Tensor

from statetrace.models.families.family import Family, Size
from statetrace.models.families.rotary import RotaryAnatomy


class LlamaAnatomy(RotaryAnatomy):
    """With grouped heads, k and v have n_kv_heads heads; `attend` and `pattern` share them out."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        body, head = model.model, model.lm_head
        self._rotary = body.rotary_emb
        self.name_parts(body.layers, "self_attn", "o_proj", body.embed_tokens, body.norm, head)

    def qkv(self, layer: int, resid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        block = self.blocks[layer]
        normed = block.input_layernorm(resid)
        projections = (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj)
        heads = (*resid.shape[:-1], -1, self.head_width)
        q, k, v = (project(normed).view(heads).transpose(1, 2) for project in projections)
        cos, sin = self.rotation(resid, positions)
        return self.rotate(q, cos, sin), self.rotate(k, cos, sin), v

    def mlp_out(self, layer: int, resid: Tensor, attn_out: Tensor) -> Tensor:
        block = self.blocks[layer]
        out: Tensor = block.mlp(block.post_attention_layernorm(resid + attn_out))
        return out

    def combine(self, layer: int, resid: Tensor, attn_out: Tensor, mlp_out: Tensor) -> Tensor:
        return (resid + attn_out) + mlp_out


def mlp_width(width: int) -> int:
    """The rule of the first Llama models: two thirds of 4 * width, up to a multiple of 256."""
    return -(-(8 * width // 3) // 256) * 256


def fields(size: Size, positions: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": size.layers,
        "hidden_size": size.width,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads or size.heads,
        "intermediate_size": size.mlp_width or mlp_width(size.width),
        "max_position_embeddings": positions,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        **deepcopy(dict(size.options)),  # transformers fills in the rope dictionary it is given
    }


def _llama_3_2(layers: int, width: int, heads: int) -> Size:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    options = {"tie_word_embeddings": True, "rope_parameters": rope}
    return Size(layers, width, heads, 131072, mlp_width=8192, kv_heads=8, options=options)


FAMILY = Family(
    name="llama",
    model_type="llama",
    sizes={
        "llama": Size(layers=12, width=768, heads=12, positions=2048),  # the size of GPT-2
        "llama-2-7b": Size(layers=32, width=4096, heads=32, positions=4096),
        "llama-3.2-1b": _llama_3_2(16, 2048, 32),
        "llama-3.2-3b": _llama_3_2(28, 3072, 24),
    },
    fields=fields,
    dropout_fields=("attention_dropout",),
    head_width_multiple=2,  # rotated in pairs
    anatomy=LlamaAnatomy,
)
