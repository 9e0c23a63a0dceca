"""GPT-2 and GPT-NeoX without transformers, for lenses that only read a model.

Purpose: importing transformers' modeling code takes longer than the verdict on a small model. The
parts of a `PlainModel` have the same names, so that the anatomies of their families read them, and
compute the same numbers up to rounding.
Caveat: there is no dropout, and blocks cannot be hooked. Checkpoints that differ in any setting
from those that `train` and `compile` write are left to transformers.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import relu

from statetrace.files import read_json
from statetrace.models.anatomy import Anatomy
from statetrace.models.families import anatomy
from statetrace.models.products import activated


class Names(NamedTuple):
    """What a model type calls its parts."""

    body: str
    embedding: str
    blocks: str
    norms: tuple[str, str]
    attention: str
    projections: tuple[str, str]  # of queries, keys and values together; of the output
    mlp: tuple[str, str]
    final_norm: str


NAMES = {
    "gpt2": Names(
        "transformer", "wte", "h", ("ln_1", "ln_2"), "attn", ("c_attn", "c_proj"),
        ("c_fc", "c_proj"), "ln_f",
    ),
    "gpt_neox": Names(
        "gpt_neox", "embed_in", "layers", ("input_layernorm", "post_attention_layernorm"),
        "attention", ("query_key_value", "dense"), ("dense_h_to_4h", "dense_4h_to_h"),
        "final_layer_norm",
    ),
}  # fmt: skip

GPT2_SETTINGS = {
    "num_hidden_layers": "n_layer",
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "hidden_act": "activation_function",
    "layer_norm_eps": "layer_norm_epsilon",
}
"""GPT-NeoX's names of settings -> those of GPT-2."""

ASSUMED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "attention_bias": True,
}
"""Settings of either, where they are given."""

GELU = {"gelu": "none", "gelu_pytorch_tanh": "tanh", "gelu_new": "tanh"}

TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
"""Matrices that GPT-2 stores as [in, out]."""


class Config(SimpleNamespace):
    """config.json, with GPT-NeoX's names of settings."""

    def get_text_config(self) -> Config:
        return self


class PlainModel(nn.Module):
    """A model whose forward pass is that of its anatomy."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        names, width, eps = NAMES[config.model_type], config.hidden_size, config.layer_norm_eps
        parts: dict[str, nn.Module] = {names.embedding: _embedding(config.vocab_size, width)}
        if config.model_type == "gpt2":
            parts["wpe"] = _embedding(config.max_position_embeddings, width)
        else:
            parts["rotary_emb"] = _Rotary(config)
        blocks = [_block(config, names) for _ in range(config.num_hidden_layers)]
        parts |= {names.blocks: nn.ModuleList(blocks), names.final_norm: nn.LayerNorm(width, eps)}
        self.add_module(names.body, nn.ModuleDict(parts))
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)

    @cached_property
    def _anatomy(self) -> Anatomy:
        return anatomy(self)

    @property
    def dtype(self) -> torch.dtype:
        return self.lm_head.weight.dtype

    def get_input_embeddings(self) -> nn.Module:
        return self._anatomy.embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> SimpleNamespace:
        return SimpleNamespace(logits=self._anatomy.forward(input_ids))


def _embedding(rows: int, width: int) -> nn.Embedding:
    # drawing its rows, even without memory for them, would import torch's compiler
    return nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)


def _block(config: Config, names: Names) -> nn.ModuleDict:
    width, inner = config.hidden_size, config.intermediate_size or 4 * config.hidden_size
    joint, out = names.projections
    up, down = names.mlp
    attention = nn.ModuleDict({joint: nn.Linear(width, 3 * width), out: nn.Linear(width, width)})
    attention.__dict__["scaling"] = (width // config.num_attention_heads) ** -0.5
    mlp = _MLP({up: nn.Linear(width, inner), down: nn.Linear(inner, width)})
    mlp.gelu = None if config.hidden_act == "relu" else GELU[config.hidden_act]
    norms = {name: nn.LayerNorm(width, config.layer_norm_eps) for name in names.norms}
    return nn.ModuleDict(norms | {names.attention: attention, "mlp": mlp})


class _MLP(nn.ModuleDict):
    gelu: str | None  # its approximation; None for relu

    def forward(self, x: Tensor) -> Tensor:
        up, down = self.values()
        assert isinstance(up, nn.Linear)
        hidden = relu(up(x)) if self.gelu is None else activated(x, up, self.gelu)
        out: Tensor = down(hidden)
        return out


class _Rotary(nn.Module):
    """The angles of rotary positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        rope = config.rope_parameters
        if rope["rope_type"] != "default":
            raise ValueError(rope["rope_type"])
        head_width = config.hidden_size // config.num_attention_heads
        self._width = int(head_width * rope["partial_rotary_factor"])
        self._base = rope["rope_theta"]

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, self._width, 2, dtype=torch.float, device=x.device)
        angles = position_ids[..., None].float() * (1.0 / self._base ** (steps / self._width))
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def plain(folder: Path) -> PlainModel | None:
    """The model in a checked folder, in float32 and eval mode; None where transformers has to load
    it or to say what is wrong with it."""
    try:
        config = _config(read_json(folder / "config.json"))
        tensors = _tensors(folder, config)
        if config.num_hidden_layers > len(tensors):
            return None
        with torch.device("meta"):
            model = PlainModel(config)
        model.load_state_dict(tensors, assign=True)
    except (LookupError, AttributeError, TypeError, ValueError, OSError, RuntimeError):
        return None
    except SafetensorError:
        return None
    return model.eval()


def _config(raw: dict[str, Any]) -> Config:
    if "float64" in (raw.get("dtype"), raw.get("torch_dtype")) or raw["model_type"] not in NAMES:
        raise ValueError("another type")
    for name, value in ASSUMED.items():
        if raw.get(name, value) is not value:
            raise ValueError(name)
    if raw["model_type"] == "gpt2":
        raw = raw | {name: raw[theirs] for name, theirs in GPT2_SETTINGS.items()}
    config = Config(**raw | {"_attn_implementation": "sdpa"})
    if config.num_attention_heads < 1 or config.hidden_size % config.num_attention_heads:
        raise ValueError(config.num_attention_heads)
    return config


def _tensors(folder: Path, config: Config) -> dict[str, Tensor]:
    """The weights in float32, with the names and shapes of a PlainModel."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        tensor = tensor.t() if name.endswith(TRANSPOSED) else tensor
        tensor = tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        if not tensor.isfinite().all():
            raise ValueError(name)
        tensors[name.replace("embed_out.", "lm_head.")] = tensor
    if config.tie_word_embeddings:
        names = NAMES[config.model_type]
        embedding = tensors[f"{names.body}.{names.embedding}.weight"]
        if not torch.equal(tensors.setdefault("lm_head.weight", embedding), embedding):
            raise ValueError("lm_head.weight")
    return tensors
