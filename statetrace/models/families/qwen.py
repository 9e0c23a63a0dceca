"""Qwen 3: Llama with a norm on every query and key, and heads that may be wider than their share.

Caveat: models with sliding windows, which no published size uses, and Qwen 2 (biases on queries,
keys and values instead of norms) use the generic anatomy.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from statetrace.models.families.family import Family, Size
from statetrace.models.families.llama import LlamaAnatomy
from statetrace.models.families.llama import fields as llama_fields


class QwenAnatomy(LlamaAnatomy):
    """The norms come between projection and rotation."""

    @staticmethod
    def reads(config: Any) -> bool:
        return LlamaAnatomy.reads(config) and "sliding_attention" not in config.layer_types

    def qkv(self, layer: int, resid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        block = self.blocks[layer]
        normed, attention = block.input_layernorm(resid), block.self_attn
        heads = (*resid.shape[:-1], -1, self.head_width)
        q = attention.q_norm(attention.q_proj(normed).view(heads)).transpose(1, 2)
        k = attention.k_norm(attention.k_proj(normed).view(heads)).transpose(1, 2)
        v = attention.v_proj(normed).view(heads).transpose(1, 2)
        cos, sin = self.rotation(resid, positions)
        return self.rotate(q, cos, sin), self.rotate(k, cos, sin), v


def fields(size: Size, positions: int) -> dict[str, Any]:
    return llama_fields(size, positions) | {
        "head_dim": size.head_width or size.width // size.heads,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    }


def _qwen_3(layers: int, width: int, mlp_width: int) -> Size:
    return Size(layers, width, 16, 40960, mlp_width=mlp_width, kv_heads=8, head_width=128)


FAMILY = Family(
    name="qwen",
    model_type="qwen3",
    sizes={
        "qwen": Size(layers=12, width=768, heads=12, positions=2048),  # the size of GPT-2
        "qwen3-0.6b": _qwen_3(28, 1024, 3072),
        "qwen3-1.7b": _qwen_3(28, 2048, 6144),
    },
    fields=fields,
    dropout_fields=("attention_dropout",),
    head_width_multiple=2,  # rotated in pairs
    anatomy=QwenAnatomy,
)
