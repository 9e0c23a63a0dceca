"""Gemma: Llama with a scaled embedding, norms around one, a GELU in the gated MLP and heads that
may be wider than their share of the residual stream.

Caveat: this is the first Gemma. Later ones add norms after each sublayer and alternate sliding
windows; they have no file and use the generic anatomy.
"""

from __future__ import annotations

from typing import Any

from statetrace.models.families.family import Family, Size
from statetrace.models.families.llama import LlamaAnatomy
from statetrace.models.families.llama import fields as llama_fields


class GemmaAnatomy(LlamaAnatomy):
    """The differences from Llama are inside the modules that its anatomy calls: the embedding
    multiplies by the square root of the width, the norms by one plus their weight."""

    @staticmethod
    def reads(config: Any) -> bool:
        both_ways = getattr(config, "use_bidirectional_attention", None)
        return LlamaAnatomy.reads(config) and not both_ways


def fields(size: Size, positions: int) -> dict[str, Any]:
    return llama_fields(size, positions) | {
        "head_dim": size.head_width or size.width // size.heads,
        "intermediate_size": size.mlp_width or 4 * size.width,
        "hidden_act": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
    }


FAMILY = Family(
    name="gemma",
    model_type="gemma",
    sizes={
        "gemma": Size(layers=12, width=768, heads=12, positions=2048),  # the size of GPT-2
        "gemma-2b": Size(18, 2048, 8, 8192, mlp_width=16384, kv_heads=1, head_width=256),
        "gemma-7b": Size(28, 3072, 16, 8192, mlp_width=24576, kv_heads=16, head_width=256),
    },
    fields=fields,
    dropout_fields=("attention_dropout",),
    head_width_multiple=2,  # rotated in pairs
    anatomy=GemmaAnatomy,
)
