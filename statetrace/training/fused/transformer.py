"""GPT-2 and Pythia by hand: forward, and backward into the gradients of `StackedWeights`.

Rows are positions of sequences: activations are [S, N, ...] with N = B * T. Most biases are added
where a product is read next, not by the product: reading and adding are one pass over memory.

Two things are not computed row by row. What the first layer computes before attention depends on
the token alone, so it is computed once per token of the vocabulary (`_first_block`). And with a
single model, the gradients of matrices are computed at the end for all layers at once: one large
product keeps a GPU busy, twelve smaller ones do not (`GradientBuffer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from statetrace.training.fused.gradient_buffer import GradientBuffer, LayerSums, across_layers
from statetrace.training.fused.operations import DeferredSums, Dropout, HeadLayout, Residual
from statetrace.training.fused.shape import ModelShape, partners, zero_gradient_columns
from statetrace.training.fused.weights import Tensors


class FusedTransformer:
    """One forward and one backward pass over some seeds.

    `weights` are those of `StackedWeights.select`; `ops` has the operations, the module `plain` or
    `kernels`; `keys` [S] determine the dropout masks, None without dropout; `at_once` computes
    gradients for all layers together (gradient_buffer.py), which requires a single seed.
    `classifier_logits` [S, B, T, classes] in float32 are those of the latest forward pass, if the
    shape has a classifier.
    """

    def __init__(
        self,
        shape: ModelShape,
        weights: tuple[Tensors, Tensors],
        rotation: tuple[Tensor, Tensor] | None,
        dtype: torch.dtype,
        ops: Any,
        keys: Tensor | None = None,
        at_once: bool = False,
    ) -> None:
        self.shape, self.ops, self.dtype = shape, ops, dtype
        self.w, self.g = weights
        self.keys = keys
        self.rotation = rotation
        self.partners = partners(shape, self.w["tokens"].device)
        self._zero_columns = zero_gradient_columns(shape, self.w["tokens"].device)
        self._buffer = (
            GradientBuffer(self.g, shape, dtype, ops, self._zero_columns) if at_once else None
        )
        self.classifier_logits: Tensor | None = None
        self._stream: Tensor | None = None  # the classifier's input, [S, N, D]
        self._dclassifier: Tensor | None = None
        self._tape: list[Any] = []
        self._biases: Sequence[Tensor] = ()
        self._transposed: dict[str, Tensor] = {}  # transposed matrices

    @property
    def vocab(self) -> int:
        return self.w["tokens"].shape[1]

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [S, B, T] -> logits [S, N, wide] in the working precision; those beyond the
        vocabulary are padding."""
        seeds, batch, length = tokens.shape
        x = self._embed(tokens)
        self._tape = [tokens]
        self._biases, self._transposed = self._product_biases(), self._transpose_matrices()
        self._per_token = self._depends_on_tokens(tokens)
        if self._buffer is not None:
            self._buffer.clear(batch * length, first=int(self._per_token))
        adds: list[Residual] = []
        for layer in range(self.shape.layers):
            heads = self._heads(layer, batch, length)
            if layer == 0 and self._per_token:
                adds = self._first_block(tokens, heads)
            else:
                x, adds = self._block(layer, x, adds, heads)
        x, (last,), saved = self._norms(x, adds, ["norm"])
        self._tape.append((adds, last, saved))
        if self._stream is not None:
            bias = self.w["classifier.b"][:, None].to(self.dtype)
            logits = torch.baddbmm(bias, self._stream, self.w["classifier.w"].mT)
            self.classifier_logits = logits.float().view(seeds, batch, length, -1)
        return torch.bmm(last, self._head().mT)

    def backward(self, dlogits: Tensor, dclassifier: Tensor | None = None) -> None:
        """From the gradients of the logits and of `classifier_logits` to those of all weights,
        which are overwritten."""
        adds, last, saved = self._tape.pop()
        self._dclassifier = dclassifier
        dhead = torch.bmm(dlogits.mT, last)[:, : self.vocab]
        dlast = torch.bmm(dlogits, self._head())
        g, deltas = self._norms_back(saved, None, [dlast], ["norm"], adds)
        table: Tensor | None = None
        for layer in reversed(range(self.shape.layers)):
            if layer == 0 and self._per_token:
                table = self._first_block_back(deltas)
            else:
                g, deltas = self._block_back(layer, g, deltas)
        (tokens,) = self._tape
        self._embed_back(tokens, g, dhead, table)
        if self._buffer is not None:
            self._buffer.finish()

    # -- one block ------------------------------------------------------------------------------

    def _block(
        self, layer: int, x: Tensor, adds: list[Residual], heads: HeadLayout
    ) -> tuple[Tensor, list[Residual]]:
        parallel = self.shape.parallel
        names = [f"{layer}.norm1", f"{layer}.norm2"] if parallel else [f"{layer}.norm1"]
        slot = [self._slot("qkv", layer), self._slot("fc", layer)][: len(names)]
        x, normed, saved = self._norms(x, adds, names, slot)
        qkv = self._product(normed[0], f"{layer}.qkv.w", self._biases[layer])
        z, attended = self.ops.attention(qkv, heads, self._slot("out", layer))
        first = self._residual(layer, "out", self._product(z, f"{layer}.out.w"))
        between: Any = None
        if not parallel:
            x, more, inner = self._norms(x, [first], [f"{layer}.norm2"], [self._slot("fc", layer)])
            normed += more
            between = (first, inner)
        a, h = self._gelu(layer, normed[1], self._slot("proj", layer))
        second = self._residual(layer, "proj", self._product(a, f"{layer}.proj.w"))
        self._tape.append((adds, normed, saved, z, attended, heads, between, a, h))
        return x, [first, second] if parallel else [second]

    def _block_back(
        self, layer: int, g: Tensor, deltas: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """`g` is the gradient of the stream after the block, without `deltas`, the gradients of
        what the block adds to it last."""
        adds, normed, saved, z, attended, heads, between, a, h = self._tape.pop()
        dnormed = self._mlp_back(
            layer, deltas[-1], a, h, normed[1], self._slot("fc", layer, back=True)
        )
        if between is None:
            dfirst = deltas[0]
        else:
            first, inner = between
            g, (dfirst,) = self._norms_back(inner, g, [dnormed], [f"{layer}.norm2"], [first])
        dz = self._product_back(dfirst, z, f"{layer}.out.w")
        slot = self._slot("qkv", layer, back=True)
        dqkv = self.ops.attention_back(dz, attended, heads, slot)
        if self._buffer is None:
            self.ops.columns(dqkv, self._zero_columns, self.g[f"{layer}.qkv.b"])
        douts = [self._product_back(dqkv, normed[0], f"{layer}.qkv.w")]
        names = [f"{layer}.norm1"]
        if between is None:
            douts, names = [*douts, dnormed], [*names, f"{layer}.norm2"]
        return self._norms_back(saved, g, douts, names, adds)

    def _gelu(self, layer: int, normed: Tensor, slot: Tensor | None = None) -> Any:
        h = self._product(normed, f"{layer}.fc.w")
        return self.ops.gelu(h, self.w[f"{layer}.fc.b"], self.shape.gelu, slot)

    def _mlp_back(
        self, layer: int, dy: Tensor, a: Tensor, h: Tensor, normed: Tensor,
        slot: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        da = self._product_back(dy, a, f"{layer}.proj.w")
        bias, dbias = self.w[f"{layer}.fc.b"], self.g[f"{layer}.fc.b"]
        deferred = self._defer("gelu", layer)
        dh = self.ops.gelu_back(da, h, bias, self.shape.gelu, dbias, slot, deferred)
        return self._product_back(dh, normed, f"{layer}.fc.w")

    # -- the first block, where it depends on tokens alone --------------------------------------

    def _depends_on_tokens(self, tokens: Tensor) -> bool:
        """Whether the first block reads token embeddings alone (no positions, no dropout, parallel
        sublayers) and the vocabulary is small."""
        few = 4 * self.vocab <= tokens[0].numel()
        alone = "positions" not in self.w and not self.shape.drop_embed
        return self.shape.parallel and alone and few

    def _first_block(self, tokens: Tensor, heads: HeadLayout) -> list[Residual]:
        """As `_block`, once per token of the vocabulary up to the attention."""
        norms = [self._norm("0.norm1"), self._norm("0.norm2")]
        _, normed, saved = self.ops.add_norm(
            self.w["tokens"], [], norms, self.shape.eps, self.dtype
        )
        qkv = _rows_of(self._product(normed[0], "0.qkv.w", self._biases[0]), tokens)
        z, attended = self.ops.attention(qkv, heads, self._slot("out", 0))
        a, h = self._gelu(0, normed[1])
        self._tape.append((tokens, normed, saved, z, attended, heads, a, h))
        return [
            self._residual(0, "out", self._product(z, "0.out.w")),
            self._residual(0, "proj", _rows_of(self._product(a, "0.proj.w"), tokens)),
        ]

    def _first_block_back(self, deltas: list[Tensor]) -> Tensor:
        """The gradient of the token table through the block, [S, V, D]."""
        tokens, normed, saved, z, attended, heads, a, h = self._tape.pop()
        dmlp = self._by_token(deltas[-1], tokens).to(self.dtype)
        dsecond = self._mlp_back(0, dmlp, a, h, normed[1])
        dz = self._product_back(deltas[0], z, "0.out.w")
        dqkv = self._by_token(self.ops.attention_back(dz, attended, heads), tokens)
        self.ops.columns(dqkv, self._zero_columns, self.g["0.qkv.b"])
        dfirst = self._product_back(dqkv.to(self.dtype), normed[0], "0.qkv.w")
        return self._norms_back(saved, None, [dfirst, dsecond], ["0.norm1", "0.norm2"], [])[0]

    def _by_token(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """[S, B * T, D] summed by token to [S, V, D], in float32."""
        summed: Tensor = self.ops.by_token(rows, tokens.flatten(1), self.vocab)
        return summed

    def _norms(
        self, x: Tensor, adds: list[Residual], names: list[str], slots: Sequence[Tensor | None] = ()
    ) -> tuple[Tensor, list[Tensor], Any]:
        """An `add_norm`; stores the classifier's input on the way."""
        norms = [self._norm(name) for name in names]
        result: tuple[Tensor, list[Tensor], Any] = self.ops.add_norm(
            x, adds, norms, self.shape.eps, self.dtype, slots
        )
        if names[0] == self.shape.classified:
            self._stream = result[0].to(self.dtype)
        return result

    def _norms_back(
        self,
        saved: Any,
        g: Tensor | None,
        douts: list[Tensor],
        names: list[str],
        adds: list[Residual],
    ) -> tuple[Tensor, list[Tensor]]:
        """Backward through an `add_norm`."""
        norms = [self._norm(name) for name in names]
        grads = [self._norm_grads(name) for name in names]
        added = [add.role for add in adds]
        if names[0] == self.shape.classified:
            g = self._classifier_back(g)
        dbiases, slots = [self.g[role] for role in added], self._slots(added)
        result: tuple[Tensor, list[Tensor]] = self.ops.add_norm_back(
            saved, g, douts, norms, grads, adds, dbiases, slots, self._sums(names, added)
        )
        return result

    # -- pieces ---------------------------------------------------------------------------------

    def _norm(self, name: str) -> tuple[Tensor, Tensor]:
        return self.w[f"{name}.w"], self.w[f"{name}.b"]

    def _norm_grads(self, name: str) -> tuple[Tensor, Tensor]:
        return self.g[f"{name}.w"], self.g[f"{name}.b"]

    def _head(self) -> Tensor:
        """[S, vocab, D] in the working precision; in half precision rows are padded to a multiple
        of 8, since fast products require rows of 16 bytes."""
        head = self.w["head" if "head" in self.w else "tokens"].to(self.dtype)
        if self.dtype == torch.float32:
            return head
        return F.pad(head, (0, 0, 0, -head.shape[1] % 8))

    def _classifier_back(self, g: Tensor | None) -> Tensor:
        """Add the classifier's gradient to that of its input, `g`; its own are written in place."""
        assert self._stream is not None
        assert self._dclassifier is not None
        d = self._dclassifier.flatten(1, 2).to(self.dtype)
        torch.bmm(d.mT, self._stream, out=self.g["classifier.w"])
        torch.sum(d, dim=1, dtype=torch.float32, out=self.g["classifier.b"])
        self._stream = self._dclassifier = None  # a CUDA graph would keep their memory
        more = torch.bmm(d, self.w["classifier.w"]).float()
        return more if g is None else g + more

    def _product(self, x: Tensor, name: str, bias: Tensor | None = None) -> Tensor:
        w = self._oriented(name)
        if bias is None:
            return (x[0] @ w[0])[None] if len(x) == 1 else torch.bmm(x, w)
        if len(x) == 1:
            return torch.addmm(bias[0], x[0], w[0])[None]
        return torch.baddbmm(bias[:, None], x, w)

    def _oriented(self, name: str) -> Tensor:
        """A matrix as [S, in, out]."""
        w = self.w[name]
        return self._transposed.get(name, w.mT) if self.shape.transposed else w

    def _transpose_matrices(self) -> dict[str, Tensor]:
        """Transposed copies of the matrices whose products have many columns. Products with the
        originals are so much slower that one copy per step pays off."""
        if self._buffer is None:
            return {}
        part = "fc" if self.shape.transposed else "proj"
        every = self.ops.transposed(across_layers(self.w, f"{part}.w", self.shape.layers))
        return {f"{layer}.{part}.w": every[layer][None] for layer in range(self.shape.layers)}

    def _product_biases(self) -> Sequence[Tensor]:
        """The biases that products add, by layer in the working precision, with one cast for
        all."""
        biases = [self.w[f"{layer}.qkv.b"] for layer in range(self.shape.layers)]
        if self.dtype == torch.float32:
            return biases
        return torch.stack(biases).to(self.dtype).unbind()

    def _product_back(self, dy: Tensor, x: Tensor, name: str) -> Tensor:
        """The gradient of `x`; that of the matrix is written in place, or left to the buffer."""
        if self._buffer is None or not self._buffer.has(name):
            self._matrix_back(x, dy, name)
        w = self.w[name]
        back = w if self.shape.transposed else self._transposed.get(name, w.mT)
        return (dy[0] @ back[0])[None] if len(x) == 1 else torch.bmm(dy, back)

    def _matrix_back(self, x: Tensor, dy: Tensor, name: str) -> None:
        """The gradient of a matrix."""
        left, right = (dy, x) if self.shape.transposed else (x, dy)
        if len(x) == 1:
            torch.mm(left[0].mT, right[0], out=self.g[name][0])
        else:
            torch.bmm(left.mT, right, out=self.g[name])

    def _slot(self, part: str, layer: int, back: bool = False) -> Tensor | None:
        """Where to write the input of the product `part` of a layer, or with `back` the gradient of
        its output; None for anywhere."""
        return None if self._buffer is None else self._buffer.slot(f"{layer}.{part}.w", back)

    def _defer(self, kind: str, layer: int) -> DeferredSums | None:
        return None if self._buffer is None else LayerSums(self._buffer, kind, layer)

    def _sums(self, norms: list[str], biases: list[str]) -> DeferredSums | None:
        """For the sums of norms and biases; those of one kind are finished together."""
        layer, _, _ = norms[0].rpartition(".")
        kind = f"{len(norms)} {norms[0].rpartition('.')[2]} {len(biases)}"
        return self._defer(kind, int(layer or 0))

    def _slots(self, biases: list[str]) -> list[Tensor | None]:
        """As `_slot`, for the gradients of what was added to the stream, by the names of the biases
        added with it. Without dropout both of a block share one."""
        if not self.shape.drop_resid:
            biases = biases[:1]
        layers_parts = (name.split(".")[:2] for name in biases)
        return [self._slot(part, int(layer), back=True) for layer, part in layers_parts]

    def _embed(self, tokens: Tensor) -> Tensor:
        x = _rows_of(self.w["tokens"], tokens)
        if "positions" in self.w:
            seeds, batch, length = tokens.shape
            x = x.view(seeds, batch, length, -1) + self.w["positions"][:, None, :length]
            x = x.flatten(1, 2)
        dropped: Tensor = self.ops.dropped(x, self._drop_embed())
        return dropped

    def _embed_back(self, tokens: Tensor, g: Tensor, dhead: Tensor, more: Tensor | None) -> None:
        """`more` is the gradient of the token table by other paths than the stream."""
        g = self.ops.dropped(g, self._drop_embed())
        table = self.g["tokens"]
        table.copy_(self._by_token(g, tokens))
        if more is not None:
            table += more
        if "head" in self.g:
            self.g["head"].copy_(dhead)
        else:
            table += dhead
        if "positions" in self.g:
            seeds, batch, length = tokens.shape
            self.g["positions"][:, :length] = g.view(seeds, batch, length, -1).sum(1)
            self.g["positions"][:, length:] = 0

    def _heads(self, layer: int, batch: int, length: int) -> HeadLayout:
        rotation = None
        if self.rotation is not None:
            rotation = (self.rotation[0][:length], self.rotation[1][:length])
        shape, drop = self.shape, self._drop(self.shape.drop_attention, 3 * layer)
        sizes = (batch, length, shape.heads, shape.head_width, shape.strides)
        return HeadLayout(*sizes, rotation, self.partners, shape.rotated, drop)

    def _drop_embed(self) -> Dropout | None:
        return self._drop(self.shape.drop_embed, 3 * self.shape.layers)

    def _residual(self, layer: int, part: str, delta: Tensor) -> Residual:
        """What attention (`out`) or the MLP (`proj`) of a layer adds to the stream."""
        bias = f"{layer}.{part}.b"
        drop = self._drop(self.shape.drop_resid, 3 * layer + 1 + (part == "proj"))
        return Residual(delta, self.w[bias], drop, bias)

    def _drop(self, share: float, salt: int) -> Dropout | None:
        return Dropout(share, self.keys, salt) if share and self.keys is not None else None


def _rows_of(table: Tensor, tokens: Tensor) -> Tensor:
    """Rows of a table [S, V, D] by tokens [S, B, T]: [S, B * T, D]."""
    each = torch.arange(len(table), device=tokens.device)[:, None] * table.shape[1]
    return F.embedding(tokens.flatten(1) + each, table.reshape(-1, table.shape[2]))
