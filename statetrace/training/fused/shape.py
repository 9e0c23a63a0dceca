"""The architecture of a GPT-2 or Pythia as the fused training step needs it, from its config."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

MODELS = ("gpt2", "gpt_neox")
"""transformers' names of the supported model types."""

PARTS = ("norm1", "qkv", "out", "norm2", "fc", "proj")
"""The parts of a layer; each has a weight and a bias."""

CLASSIFIER = {"classifier.w": "auxiliary.weight", "classifier.b": "auxiliary.bias"}
"""Roles of the parameters of an auxiliary classifier, [classes, width] and [classes]."""

_GPT2 = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
_NEOX = (
    *("input_layernorm", "attention.query_key_value", "attention.dense"),
    *("post_attention_layernorm", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
)


@dataclass(frozen=True)
class ModelShape:
    """Attributes:
    names: role of a parameter ("3.qkv.w", "tokens", "head") -> its name in the model.
    parallel: whether attention and MLP read the same residual stream (Pythia).
    transposed: whether matrices are stored [out, in], as torch's Linear does.
    joint: whether queries, keys and values of one head lie side by side in the projection.
    rotated: leading dimensions of each head that are rotated by the position, 0 for none.
    drop_embed, drop_attention, drop_resid: dropout probabilities.
    classified: the norm ("2.norm1", or the last, "norm") whose input the classifier reads.
    """

    layers: int
    width: int
    heads: int
    eps: float
    names: dict[str, str]
    parallel: bool
    transposed: bool
    joint: bool
    gelu: str
    rotated: int = 0
    drop_embed: float = 0.0
    drop_attention: float = 0.0
    drop_resid: float = 0.0
    classified: str | None = None

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def strides(self) -> tuple[int, int]:
        """Within a row of the joint projection: from query to key, and from head to head."""
        each = self.head_width
        return (each, 3 * each) if self.joint else (self.width, each)

    def with_classifier(self, layer: int) -> ModelShape:
        """The same with a linear classifier on the residual stream after block `layer`, counted
        from 1, which is the input of the next block's first norm, or of the last norm."""
        norm = "norm" if layer == self.layers else f"{layer}.norm1"
        return replace(self, names=self.names | CLASSIFIER, classified=norm)


def unsupported_config(config: Any) -> str | None:
    """Why a configuration is not supported, or None."""
    if config.model_type not in MODELS:
        return f"model type {config.model_type} is not {' or '.join(MODELS)}"
    if config.model_type == "gpt2":
        plain = not (config.scale_attn_by_inverse_layer_idx or config.reorder_and_upcast_attn)
        standard = plain and config.scale_attn_weights and config.tie_word_embeddings
        standard = standard and config.activation_function in _GELU
        return None if standard else "it is not a standard GPT-2"
    standard = config.attention_bias and not config.tie_word_embeddings
    standard = standard and config.rope_parameters["rope_type"] == "default"
    return None if standard and config.hidden_act in _GELU else "it is not a standard GPT-NeoX"


_GELU = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
"""Activation functions by transformers' names, as torch's `approximate`."""


def shape_of(model: Any) -> ModelShape:
    """The shape of a supported model."""
    config = model.config
    layers = config.num_hidden_layers
    size = {"layers": layers, "width": config.hidden_size, "heads": config.num_attention_heads}
    if config.model_type == "gpt2":
        top = {"tokens": "transformer.wte.weight", "positions": "transformer.wpe.weight"}
        top |= {"norm.w": "transformer.ln_f.weight", "norm.b": "transformer.ln_f.bias"}
        return ModelShape(
            **size,
            eps=config.layer_norm_epsilon,
            names=top | _in_layers("transformer.h", _GPT2, layers),
            parallel=False,
            transposed=False,
            joint=False,
            gelu=_GELU[config.activation_function],
            drop_embed=config.embd_pdrop,
            drop_attention=config.attn_pdrop,
            drop_resid=config.resid_pdrop,
        )
    head = model.get_output_embeddings().weight  # its name has changed between releases
    (head_name,) = (name for name, tensor in model.named_parameters() if tensor is head)
    top, norm = {"tokens": "gpt_neox.embed_in.weight", "head": head_name}, "final_layer_norm"
    top |= {"norm.w": f"gpt_neox.{norm}.weight", "norm.b": f"gpt_neox.{norm}.bias"}
    return ModelShape(
        **size,
        eps=config.layer_norm_eps,
        names=top | _in_layers("gpt_neox.layers", _NEOX, layers),
        parallel=config.use_parallel_residual,
        transposed=True,
        joint=True,
        gelu=_GELU[config.hidden_act],
        rotated=2 * len(model.gpt_neox.rotary_emb.inv_freq),
        drop_embed=config.hidden_dropout,
        drop_attention=config.attention_dropout,
        drop_resid=config.hidden_dropout,
    )


def _in_layers(path: str, modules: tuple[str, ...], layers: int) -> dict[str, str]:
    return {
        f"{layer}.{part}.{kind[0]}": f"{path}.{layer}.{module}.{kind}"
        for layer in range(layers)
        for part, module in zip(PARTS, modules, strict=True)
        for kind in ("weight", "bias")
    }


def rotation(
    model: Any, shape: ModelShape, length: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """(cosines, signed sines), both [length, head_width] in float32: a query is rotated by
    q * cosine + partner(q) * sine, where `partner` swaps the halves of the rotated dimensions."""
    if not shape.rotated:
        return None
    frequencies = model.gpt_neox.rotary_emb.inv_freq.float()
    angles = torch.arange(length, device=frequencies.device)[:, None] * frequencies  # [T, R/2]
    rest = (length, shape.head_width - shape.rotated)
    cosine = torch.cat([angles.cos(), angles.cos(), angles.new_ones(rest)], dim=1)
    sine = torch.cat([-angles.sin(), angles.sin(), angles.new_zeros(rest)], dim=1)
    return cosine, sine


def partners(shape: ModelShape, device: torch.device | str) -> torch.Tensor:
    """For every dimension of a head the one it is rotated with, or itself."""
    index = torch.arange(shape.head_width, device=device)
    half = shape.rotated // 2
    second = torch.where(index < 2 * half, index - half, index)
    return torch.where(index < half, index + half, second)


def zero_gradient_columns(shape: ModelShape, device: torch.device | str) -> torch.Tensor:
    """Columns of the joint projection (1) whose bias has no effect and a zero gradient: adding a
    constant to all keys changes no attention weight, unless they are rotated afterwards."""
    part, step = shape.strides
    columns = torch.zeros(3 * shape.width, dtype=torch.int8, device=device)
    for head in range(shape.heads):
        first = head * step + part
        columns[first + shape.rotated : first + shape.head_width] = 1
    return columns
