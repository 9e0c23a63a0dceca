"""The parts of a Hugging Face model, under the names the lenses use.

Purpose: lenses and interventions never access a model's modules directly, only its `Anatomy`. Every
causal language model has modules for hooks. Families with a file of their own (`fast = True`) can
also be evaluated piece by piece, at any subset of positions, by calling the model's own modules in
its own order, so that `forward` reproduces the model bit for bit.

Cost: nothing is copied. `attention_weights` holds L·B·H·T² numbers.

Caveat: `model.eval()` is assumed. Bit-equality holds for the `sdpa` attention that transformers
uses by default and at equal shapes; a subset of positions agrees up to rounding. transformers
computes Llama's norms and all rotary angles in float32 even if the model is float64.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from statetrace.errors import StatetraceError


class Anatomy:
    """The map of one model. B sequences, T positions, D = width, H heads of head_width, V tokens.

    Attributes:
        model: the model itself.
        fast: whether the model can be evaluated piece by piece.
        layers, width: number of blocks; width of the residual stream.
        heads, head_width: None if the model has no attention.
        n_kv_heads: key and value heads; equal to `heads` unless they are grouped.
        max_length: number of positions, None if the model accepts any length.
        blocks: one module per layer. Its output (or the first item of it) is resid_post [B, T, D];
            the first positional input of blocks[0] is the embedding.
        attention: one per layer, output[0] is attn_out [B, T, D]; None if not recognised.
        mlp: one per layer, output is mlp_out [B, T, D]; None if not recognised.
        attention_projection: one per layer, its INPUT is the concatenated heads
            z [B, T, H * head_width]; None if not recognised.
        embedding: token ids -> vectors (positions, if they have a table, are added later).
        final_norm: the norm before the unembedding; None if not recognised.
        unembedding: normed residual stream -> logits.
    """

    fast: bool = False
    model: Any
    layers: int
    width: int
    heads: int | None
    head_width: int | None
    n_kv_heads: int | None
    max_length: int | None
    blocks: tuple[Any, ...]
    attention: tuple[nn.Module, ...] | None
    mlp: tuple[nn.Module, ...] | None
    attention_projection: tuple[nn.Module, ...] | None
    embedding: nn.Module
    final_norm: nn.Module | None
    unembedding: nn.Module

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        self.model = model
        self.layers = config.num_hidden_layers
        self.width = config.hidden_size
        self.heads = getattr(config, "num_attention_heads", None)
        self.head_width = None
        if self.heads is not None:
            self.head_width = getattr(config, "head_dim", None) or self.width // self.heads
        self.n_kv_heads = getattr(config, "num_key_value_heads", None) or self.heads
        self.max_length = self.position_limit(config)

    def name_parts(
        self, blocks: Any, attention: str, projection: str, embedding: Any, norm: Any, head: Any
    ) -> None:
        """Fill the attributes for blocks that call their MLP `mlp`; `attention` and `projection`
        are the names that they have there."""
        self.blocks = tuple(blocks)
        self.attention = tuple(getattr(block, attention) for block in blocks)
        self.mlp = tuple(block.mlp for block in blocks)
        self.attention_projection = tuple(getattr(part, projection) for part in self.attention)
        self.embedding, self.final_norm, self.unembedding = embedding, norm, head

    @staticmethod
    def reads(config: Any) -> bool:
        """Whether this class reproduces a model of this configuration exactly."""
        return True

    @staticmethod
    def position_limit(config: Any) -> int | None:
        """The longest sequence a model of this configuration accepts, None for any."""
        limit = getattr(config.get_text_config(), "max_position_embeddings", None)
        return limit if isinstance(limit, int) and limit > 0 else None

    # Piece by piece --------------------------------------------------------------------------

    def embed(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """tokens [B, T] -> the residual stream before the first block [B, T, D].

        positions [T] are the absolute positions of the tokens; None for 0, 1, 2, ...
        """
        self._refuse("embed")

    def qkv(self, layer: int, resid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """resid [B, T, D] at absolute positions [T] -> q [B, H, T, head_width] and
        k, v [B, n_kv_heads, T, head_width], normed, projected and rotated."""
        self._refuse("qkv")

    def scaling(self, layer: int) -> float:
        """The factor of q·k before the softmax."""
        return self._fast("scaling").attention[layer].scaling

    def attn_out(self, layer: int, z: Tensor) -> Tensor:
        """z [B, T, H * head_width] -> what attention adds to the residual stream [B, T, D]."""
        return self._fast("attn_out").attention_projection[layer](z)

    def mlp_out(self, layer: int, resid: Tensor, attn_out: Tensor) -> Tensor:
        """The block's input and attn_out -> what the MLP adds to the residual stream [B, T, D]."""
        self._refuse("mlp_out")

    def combine(self, layer: int, resid: Tensor, attn_out: Tensor, mlp_out: Tensor) -> Tensor:
        """The block's output resid + attn_out + mlp_out, added in the order of the original."""
        self._refuse("combine")

    def unembed(self, resid: Tensor) -> Tensor:
        """The residual stream after the last block [B, T, D] -> logits [B, T, V]."""
        anatomy = self._fast("unembed")
        return anatomy.unembedding(anatomy.final_norm(resid))

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """q [B, H, T, head_width], k and v [B, n_kv_heads, S, head_width] ->
        z [B, T, H * head_width].

        mask [T, S] or [B, 1, T, S] is True where a query may attend (see `causal_mask`); None means
        causal, for queries and keys at the same positions.
        """
        self._check_lengths(q, k, mask)
        assert self.attention is not None
        attend = attention if torch.is_grad_enabled() else _Attention.apply
        z = attend(q, k, v, mask, self.attention[layer], self.scaling(layer))
        return z.reshape(*z.shape[:-2], -1).contiguous()

    def pattern(self, layer: int, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        """The attention weights [B, H, T, S] that `attend` uses."""
        self._check_lengths(q, k, mask)
        if mask is None:
            positions = torch.arange(q.shape[-2], device=q.device)
            mask = causal_mask(positions, positions)
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # [B, H, S, head_width]
        scores = q @ k.transpose(-1, -2) * self.scaling(layer)
        if scores.dtype.itemsize < 4:
            scores = scores.float()
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1).to(q.dtype)

    def block(self, layer: int, resid: Tensor, positions: Tensor) -> Tensor:
        """One block over a whole sequence: resid_pre -> resid_post, both [B, T, D]."""
        q, k, v = self.qkv(layer, resid, positions)
        attn_out = self.attn_out(layer, self.attend(layer, q, k, v))
        mlp_out = self.mlp_out(layer, resid, attn_out)
        return self.combine(layer, resid, attn_out, mlp_out)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> logits [B, T, V], computed piece by piece."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        resid = self.embed(tokens, positions)
        for layer in range(self.layers):
            resid = self.block(layer, resid, positions)
        return self.unembed(resid)

    @torch.no_grad()
    def attention_weights(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> the attention weights of every layer [L, B, H, T, T]."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        resid = self.embed(tokens, positions)
        weights = []
        for layer in range(self.layers):
            q, k, _ = self.qkv(layer, resid, positions)
            weights.append(self.pattern(layer, q, k))
            resid = self.block(layer, resid, positions)
        return torch.stack(weights)

    # -----------------------------------------------------------------------------------------

    def _check_lengths(self, q: Tensor, k: Tensor, mask: Tensor | None) -> None:
        # sdpa would silently cut off keys, or let a single query attend to all of them.
        if mask is None and q.shape[-2] != k.shape[-2]:
            raise StatetraceError(
                f"{q.shape[-2]} queries and {k.shape[-2]} keys are not at the same positions; "
                "pass mask=causal_mask(query_positions, key_positions)"
            )

    def _fast(self, name: str) -> Any:
        """Itself, where the model can be evaluated piece by piece."""
        return self if self.fast else self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        raise StatetraceError(
            f"{self.model.config.model_type!r} models have no {name}() (fast = False); "
            "use hooks on their modules, or write a family file in statetrace/models/families"
        )


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """[T] and [S] -> [T, S], True where the query is at or after the key."""
    return query_positions[:, None] >= key_positions[None, :]


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, module: nn.Module, scaling: float
) -> Tensor:
    """[B, T, H, head_width]; with grouped heads by the model's own function, because its treatment
    of them, and with it the kernel that torch chooses, differs between versions."""
    if q.shape[1] == k.shape[1]:
        causal = mask is None and q.shape[2] > 1
        z = scaled_dot_product_attention(q, k, v, mask, scale=scaling, is_causal=causal)
        return z.transpose(1, 2).contiguous()
    # Not at the top of the file: it loads all of transformers' modeling code.
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    z, _ = sdpa_attention_forward(module, q, k, v, mask, dropout=0.0, scaling=scaling)
    return z


MOST_ROWS = 1 << 15
"""Sequences in one call of a GPU's attention kernels, which fail from 65,536 on."""


class _Attention(torch.autograd.Function):
    """`attention` without gradients, with a rule for stacks of models (stack.py):
    attention has no parameters, so their sequences are one batch."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        return attention(q, k, v, *rest)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept for a backward pass."""

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], q: Tensor, k: Tensor, v: Tensor, *rest: Any
    ) -> tuple[Tensor, int]:
        models, mask = info.batch_size, rest[0]
        assert mask is None or mask.ndim == 2, "a mask by sequence is not supported in a stack"
        stacked = [
            part.expand(models, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((q, k, v), in_dims, strict=False)
        ]
        pieces = zip(*(part.flatten(0, 1).split(MOST_ROWS) for part in stacked), strict=True)
        z = torch.cat([attention(*piece, *rest) for piece in pieces])
        return z.unflatten(0, (models, -1)), 0
