"""Pythia (GPT-NeoX): rotary positions on a quarter of each head, parallel attention and MLP."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from statetrace.models.families.family import Family, Size
from statetrace.models.families.rotary import RotaryAnatomy


class PythiaAnatomy(RotaryAnatomy):
    """GPT-NeoX may also be configured with sequential blocks; both are supported."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        body, head = model.gpt_neox, model.get_output_embeddings()
        norm = body.final_layer_norm
        self._rotary = body.rotary_emb
        self.name_parts(body.layers, "attention", "dense", body.embed_in, norm, head)
        self._parallel = bool(model.config.use_parallel_residual)

    def qkv(self, layer: int, resid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        block = self.blocks[layer]
        joint = block.attention.query_key_value(block.input_layernorm(resid))  # [B, T, 3 D]
        # Heads are the outer index here: each head's query, key and value lie side by side.
        joint = joint.view(*resid.shape[:-1], self.heads, -1).transpose(1, 2)
        q, k, v = joint.chunk(3, dim=-1)
        cos, sin = self.rotation(resid, positions)
        return self.rotate(q, cos, sin), self.rotate(k, cos, sin), v

    def mlp_out(self, layer: int, resid: Tensor, attn_out: Tensor) -> Tensor:
        block = self.blocks[layer]
        read = resid if self._parallel else attn_out + resid
        out: Tensor = block.mlp(block.post_attention_layernorm(read))
        return out

    def combine(self, layer: int, resid: Tensor, attn_out: Tensor, mlp_out: Tensor) -> Tensor:
        if self._parallel:
            return (mlp_out + attn_out) + resid
        return mlp_out + (attn_out + resid)


def fields(size: Size, positions: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": size.layers,
        "hidden_size": size.width,
        "num_attention_heads": size.heads,
        "intermediate_size": 4 * size.width,
        "max_position_embeddings": positions,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
        "use_parallel_residual": True,
        "attention_bias": True,
        "tie_word_embeddings": False,
    }


def _size(layers: int, width: int, heads: int) -> Size:
    return Size(layers=layers, width=width, heads=heads, positions=2048)


FAMILY = Family(
    name="pythia",
    model_type="gpt_neox",
    sizes={
        "pythia": _size(12, 768, 12),  # the bare name: the size of GPT-2, Pythia-160m
        "pythia-14m": _size(6, 128, 4),
        "pythia-31m": _size(6, 256, 8),
        "pythia-70m": _size(6, 512, 8),
        "pythia-160m": _size(12, 768, 12),
        "pythia-410m": _size(24, 1024, 16),
        "pythia-1b": _size(16, 2048, 8),
        "pythia-1.4b": _size(24, 2048, 16),
        "pythia-2.8b": _size(32, 2560, 32),
        "pythia-6.9b": _size(32, 4096, 32),
        "pythia-12b": _size(36, 5120, 40),
    },
    fields=fields,
    dropout_fields=("hidden_dropout", "attention_dropout"),
    head_width_multiple=4,  # a quarter of the head is rotated
    anatomy=PythiaAnatomy,
)
