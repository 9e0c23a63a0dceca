"""GPT-2 and Pythia as a straight line: forward, and backward into the gradients of `Weights`.

Rows are positions of sequences: activations are [S, N, ...] with N = B * T. Most biases are added
where a product is read next, not by the product: reading and adding are one pass over memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from statetrace.training.program.operations import Add, Drop, Heads
from statetrace.training.program.shape import Shape, partners
from statetrace.training.program.weights import SomeWeights


class Program:
    """One forward and one backward pass over some seeds.

    `ops` are the operations, the module `plain` or `kernels`; `keys` [S] what dropout masks are
    made of, None where nothing is dropped. `read` [S, B, T, classes] in float32 is what the
    classifier said in the latest forward pass, where the shape has one.
    """

    def __init__(
        self,
        shape: Shape,
        weights: SomeWeights,
        rotation: tuple[Tensor, Tensor] | None,
        dtype: torch.dtype,
        ops: Any,
        keys: Tensor | None = None,
    ) -> None:
        self.shape, self.ops, self.dtype = shape, ops, dtype
        self.w, self.g = weights.work, weights.grad
        self.keys = keys
        self.rotation = rotation
        self.partners = partners(shape, self.w["tokens"].device)
        self.read: Tensor | None = None
        self._stream: Tensor | None = None  # what was read, [S, N, D]
        self._dread: Tensor | None = None
        self._tape: list[Any] = []

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [S, B, T] -> logits [S, B, T, V] in float32."""
        seeds, batch, length = tokens.shape
        x = self._embed(tokens)
        self._tape = [tokens]
        adds: list[Add] = []
        for layer in range(self.shape.layers):
            heads = self._heads(layer, batch, length)
            x, adds = self._block(layer, x, adds, heads)
        x, (last,), saved = self._norms(x, adds, ["norm"])
        self._tape.append((adds, last, saved))
        if self._stream is not None:
            bias = self.w["read.b"][:, None].to(self.dtype)
            said = torch.baddbmm(bias, self._stream, self.w["read.w"].mT)
            self.read = said.float().view(seeds, batch, length, -1)
        logits = torch.bmm(last, self._head().mT)
        return logits.float().view(seeds, batch, length, -1)

    def backward(self, dlogits: Tensor, dread: Tensor | None = None) -> None:
        """From the gradients of the logits and of `read` to those of all weights, which are
        overwritten."""
        adds, last, saved = self._tape.pop()
        self._dread = dread
        d = dlogits.flatten(1, 2).to(self.dtype)
        dhead = torch.bmm(d.mT, last)
        g, deltas = self._norms_back(saved, None, [torch.bmm(d, self._head())], ["norm"], adds)
        for layer in reversed(range(self.shape.layers)):
            g, deltas = self._block_back(layer, g, deltas)
        (tokens,) = self._tape
        self._embed_back(tokens, g, dhead)

    # -- one block ------------------------------------------------------------------------------

    def _block(self, at: int, x: Tensor, adds: list[Add], heads: Heads) -> tuple[Tensor, list[Add]]:
        parallel = self.shape.parallel
        names = [f"{at}.norm1", f"{at}.norm2"] if parallel else [f"{at}.norm1"]
        x, normed, saved = self._norms(x, adds, names)
        z, seen = self.ops.attention(self._product(normed[0], f"{at}.qkv.w", f"{at}.qkv.b"), heads)
        first = Add(self._product(z, f"{at}.out.w"), self.w[f"{at}.out.b"], self._resid(2 * at))
        between: Any = None
        if not parallel:
            x, more, kept = self._norms(x, [first], [f"{at}.norm2"])
            normed += more
            between = (first, kept)
        a, h = self.ops.gelu(
            self._product(normed[1], f"{at}.fc.w"), self.w[f"{at}.fc.b"], self.shape.gelu
        )
        second = Add(
            self._product(a, f"{at}.proj.w"), self.w[f"{at}.proj.b"], self._resid(2 * at + 1)
        )
        self._tape.append((adds, normed, saved, z, seen, heads, between, a, h))
        return x, [first, second] if parallel else [second]

    def _block_back(self, at: int, g: Tensor, deltas: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`g` is the gradient of the stream behind the block, without `deltas`, which are those of
        what the block adds to it last."""
        adds, normed, saved, z, seen, heads, between, a, h = self._tape.pop()
        da = self._product_back(deltas[-1], a, f"{at}.proj.w")
        dh = self.ops.gelu_back(da, h, self.w[f"{at}.fc.b"], self.shape.gelu, self.g[f"{at}.fc.b"])
        dnormed = self._product_back(dh, normed[1], f"{at}.fc.w")
        if between is None:
            dfirst = deltas[0]
        else:
            first, kept = between
            g, (dfirst,) = self._norms_back(kept, g, [dnormed], [f"{at}.norm2"], [first], at)
        dz = self._product_back(dfirst, z, f"{at}.out.w")
        dqkv = self.ops.attention_back(dz, seen, heads, self.g[f"{at}.qkv.b"])
        douts = [self._product_back(dqkv, normed[0], f"{at}.qkv.w")]
        names = [f"{at}.norm1"]
        if between is None:
            douts, names = [*douts, dnormed], [*names, f"{at}.norm2"]
        return self._norms_back(saved, g, douts, names, adds, at)

    def _norms(
        self, x: Tensor, adds: list[Add], names: list[str]
    ) -> tuple[Tensor, list[Tensor], Any]:
        """An `add_norm`; what the classifier reads is kept as it passes."""
        norms = [self._norm(name) for name in names]
        result: tuple[Tensor, list[Tensor], Any] = self.ops.add_norm(
            x, adds, norms, self.shape.eps, self.dtype
        )
        if names[0] == self.shape.read:
            self._stream = result[0].to(self.dtype)
        return result

    def _norms_back(
        self,
        saved: Any,
        g: Tensor | None,
        douts: list[Tensor],
        names: list[str],
        adds: list[Add],
        at: int | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Through an `add_norm`; `at` is the layer it stands in, None for the last norm."""
        norms = [self._norm(name) for name in names]
        grads = [(self.g[f"{name}.w"], self.g[f"{name}.b"]) for name in names]
        biases = [self.g[name] for name in self._added(names, adds, at)]
        if names[0] == self.shape.read:
            g = self._read_back(g)
        result: tuple[Tensor, list[Tensor]] = self.ops.add_norm_back(
            saved, g, douts, norms, grads, adds, biases
        )
        return result

    def _added(self, names: list[str], adds: list[Add], at: int | None) -> list[str]:
        """The biases of what an `add_norm` added: the layer before it, or the same for norm2."""
        if not adds:
            return []
        if at is not None and not self.shape.parallel and names == [f"{at}.norm2"]:
            return [f"{at}.out.b"]
        before = (self.shape.layers if at is None else at) - 1
        both = [f"{before}.out.b", f"{before}.proj.b"]
        return both if self.shape.parallel else both[1:]

    # -- pieces ---------------------------------------------------------------------------------

    def _norm(self, name: str) -> tuple[Tensor, Tensor]:
        return self.w[f"{name}.w"], self.w[f"{name}.b"]

    def _head(self) -> Tensor:
        return self.w["head" if "head" in self.w else "tokens"].to(self.dtype)

    def _read_back(self, g: Tensor | None) -> Tensor:
        """The gradient `g` of the stream that was read and what reading it adds; the classifier's
        own are written where they belong."""
        assert self._stream is not None
        assert self._dread is not None
        d = self._dread.flatten(1, 2).to(self.dtype)
        torch.bmm(d.mT, self._stream, out=self.g["read.w"])
        torch.sum(d, dim=1, dtype=torch.float32, out=self.g["read.b"])
        self._stream = self._dread = None  # a graph would keep their memory
        more = torch.bmm(d, self.w["read.w"]).float()
        return more if g is None else g + more

    def _product(self, x: Tensor, name: str, bias: str | None = None) -> Tensor:
        w = self.w[name].mT if self.shape.transposed else self.w[name]
        if bias is None:
            return (x[0] @ w[0])[None] if len(x) == 1 else torch.bmm(x, w)
        b = self.w[bias].to(x.dtype)
        if len(x) == 1:
            return torch.addmm(b[0], x[0], w[0])[None]
        return torch.baddbmm(b[:, None], x, w)

    def _product_back(self, dy: Tensor, x: Tensor, name: str) -> Tensor:
        """The gradient of `x`; that of the matrix is written where it belongs."""
        w, out = self.w[name], self.g[name]
        left, right = (dy, x) if self.shape.transposed else (x, dy)
        back = w if self.shape.transposed else w.mT
        if len(x) == 1:
            torch.mm(left[0].mT, right[0], out=out[0])
            return (dy[0] @ back[0])[None]
        torch.bmm(left.mT, right, out=out)
        return torch.bmm(dy, back)

    def _embed(self, tokens: Tensor) -> Tensor:
        seeds, _, length = tokens.shape
        table = self.w["tokens"]
        each = torch.arange(seeds, device=tokens.device)[:, None, None] * table.shape[1]
        x = F.embedding(tokens + each, table.reshape(-1, table.shape[2]))
        if "positions" in self.w:
            x = x + self.w["positions"][:, None, :length]
        x = x.flatten(1, 2)
        dropped: Tensor = self.ops.dropped(x, self._drop_embed())
        return dropped

    def _embed_back(self, tokens: Tensor, g: Tensor, dhead: Tensor) -> None:
        g = self.ops.dropped(g, self._drop_embed())
        table = self.g["tokens"]
        # a product with ones instead of scattered additions, whose order would not be fixed
        here = F.one_hot(tokens.flatten(1), table.shape[1]).to(g.dtype)
        torch.bmm(here.mT, g, out=table)
        if "head" in self.g:
            self.g["head"].copy_(dhead)
        else:
            table += dhead
        if "positions" in self.g:
            seeds, batch, length = tokens.shape
            self.g["positions"][:, :length] = g.view(seeds, batch, length, -1).sum(1)
            self.g["positions"][:, length:] = 0

    def _heads(self, layer: int, batch: int, length: int) -> Heads:
        turned = None
        if self.rotation is not None:
            turned = (self.rotation[0][:length], self.rotation[1][:length])
        return Heads(
            batch=batch,
            length=length,
            heads=self.shape.heads,
            width=self.shape.head_width,
            strides=self.shape.strides,
            rotation=turned,
            partners=self.partners,
            rotated=self.shape.rotated,
            drop=self._drop(self.shape.drop_attention, 3 * layer),
        )

    def _drop_embed(self) -> Drop | None:
        return self._drop(self.shape.drop_embed, 3 * self.shape.layers)

    def _resid(self, number: int) -> Drop | None:
        layer, which = divmod(number, 2)
        return self._drop(self.shape.drop_resid, 3 * layer + 1 + which)

    def _drop(self, share: float, salt: int) -> Drop | None:
        return Drop(share, self.keys, salt) if share and self.keys is not None else None
