"""GPT-2 and Pythia written out: forward, and backward into the gradients of `StackedWeights`.

Rows are positions of sequences: activations are [S, N, ...] with N = B * T. Most biases are added
where a product is read next, not by the product: reading and adding are one pass over memory.

Two things are not done row by row. What the first layer does before positions meet depends on the
token alone, so it is done for the vocabulary (`_first_block`). And the gradients of matrices wait
until the end where one model is trained, to be taken for all layers at once: one large product
keeps all of a GPU busy, and twelve smaller ones do not (`GradientBuffer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from statetrace.training.fused.gradient_buffer import GradientBuffer, of_all_layers
from statetrace.training.fused.operations import Add, Drop, Heads, Later
from statetrace.training.fused.shape import ModelShape, partners, unmoved
from statetrace.training.fused.weights import SomeWeights


class FusedTransformer:
    """One forward and one backward pass over some seeds.

    `ops` are the operations, the module `plain` or `kernels`; `keys` [S] what dropout masks are
    made of, None where nothing is dropped; `at_once` says that gradients are taken for all layers
    together (shelf.py), which takes a single seed. `read` [S, B, T, classes] in float32 is what the
    classifier said in the latest forward pass, where the shape has one.
    """

    def __init__(
        self,
        shape: ModelShape,
        weights: SomeWeights,
        rotation: tuple[Tensor, Tensor] | None,
        dtype: torch.dtype,
        ops: Any,
        keys: Tensor | None = None,
        at_once: bool = False,
    ) -> None:
        self.shape, self.ops, self.dtype = shape, ops, dtype
        self.w, self.g = weights.work, weights.grad
        self.keys = keys
        self.rotation = rotation
        self.partners = partners(shape, self.w["tokens"].device)
        self._still = unmoved(shape, self.w["tokens"].device)
        self._shelf = GradientBuffer(self.g, shape, dtype, ops, self._still) if at_once else None
        self.read: Tensor | None = None
        self._stream: Tensor | None = None  # what was read, [S, N, D]
        self._dread: Tensor | None = None
        self._tape: list[Any] = []
        self._biases: Sequence[Tensor] = ()
        self._wide: dict[str, Tensor] = {}  # matrices the other way round

    @property
    def words(self) -> int:
        return self.w["tokens"].shape[1]

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [S, B, T] -> logits [S, N, wide] in the working precision: of the vocabulary's
        words, and perhaps of some more that are none."""
        seeds, batch, length = tokens.shape
        x = self._embed(tokens)
        self._tape = [tokens]
        self._biases, self._wide = self._biases_of_products(), self._turned()
        self._for_words = self._depends_on_tokens(tokens)
        if self._shelf is not None:
            self._shelf.clear(batch * length, first=int(self._for_words))
        adds: list[Add] = []
        for layer in range(self.shape.layers):
            heads = self._heads(layer, batch, length)
            if layer == 0 and self._for_words:
                adds = self._first_block(tokens, heads)
            else:
                x, adds = self._block(layer, x, adds, heads)
        x, (last,), saved = self._norms(x, adds, ["norm"])
        self._tape.append((adds, last, saved))
        if self._stream is not None:
            bias = self.w["read.b"][:, None].to(self.dtype)
            said = torch.baddbmm(bias, self._stream, self.w["read.w"].mT)
            self.read = said.float().view(seeds, batch, length, -1)
        return torch.bmm(last, self._head().mT)

    def backward(self, dlogits: Tensor, dread: Tensor | None = None) -> None:
        """From the gradients of the logits and of `read` to those of all weights, which are
        overwritten."""
        adds, last, saved = self._tape.pop()
        self._dread = dread
        dhead = torch.bmm(dlogits.mT, last)[:, : self.words]
        dlast = torch.bmm(dlogits, self._head())
        g, deltas = self._norms_back(saved, None, [dlast], ["norm"], adds)
        table: Tensor | None = None
        for layer in reversed(range(self.shape.layers)):
            if layer == 0 and self._for_words:
                table = self._first_block_back(deltas)
            else:
                g, deltas = self._block_back(layer, g, deltas)
        (tokens,) = self._tape
        self._embed_back(tokens, g, dhead, table)
        if self._shelf is not None:
            self._shelf.settle()

    # -- one block ------------------------------------------------------------------------------

    def _block(self, at: int, x: Tensor, adds: list[Add], heads: Heads) -> tuple[Tensor, list[Add]]:
        parallel = self.shape.parallel
        names = [f"{at}.norm1", f"{at}.norm2"] if parallel else [f"{at}.norm1"]
        room = [self._room("qkv", at), self._room("fc", at)][: len(names)]
        x, normed, saved = self._norms(x, adds, names, room)
        qkv = self._product(normed[0], f"{at}.qkv.w", self._biases[at])
        z, seen = self.ops.attention(qkv, heads, self._room("out", at))
        first = Add(self._product(z, f"{at}.out.w"), self.w[f"{at}.out.b"], self._resid(2 * at))
        between: Any = None
        if not parallel:
            x, more, kept = self._norms(x, [first], [f"{at}.norm2"], [self._room("fc", at)])
            normed += more
            between = (first, kept)
        a, h = self._gelu(at, normed[1], self._room("proj", at))
        second = Add(
            self._product(a, f"{at}.proj.w"), self.w[f"{at}.proj.b"], self._resid(2 * at + 1)
        )
        self._tape.append((adds, normed, saved, z, seen, heads, between, a, h))
        return x, [first, second] if parallel else [second]

    def _block_back(self, at: int, g: Tensor, deltas: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`g` is the gradient of the stream behind the block, without `deltas`, which are those of
        what the block adds to it last."""
        adds, normed, saved, z, seen, heads, between, a, h = self._tape.pop()
        dnormed = self._mlp_back(at, deltas[-1], a, h, normed[1], self._room("fc", at, back=True))
        if between is None:
            dfirst = deltas[0]
        else:
            first, kept = between
            g, (dfirst,) = self._norms_back(kept, g, [dnormed], [f"{at}.norm2"], [first], at)
        dz = self._product_back(dfirst, z, f"{at}.out.w")
        room = self._room("qkv", at, back=True)
        dqkv = self.ops.attention_back(dz, seen, heads, room)
        if self._shelf is None:
            self.ops.columns(dqkv, self._still, self.g[f"{at}.qkv.b"])
        douts = [self._product_back(dqkv, normed[0], f"{at}.qkv.w")]
        names = [f"{at}.norm1"]
        if between is None:
            douts, names = [*douts, dnormed], [*names, f"{at}.norm2"]
        return self._norms_back(saved, g, douts, names, adds, at)

    def _gelu(self, at: int, normed: Tensor, room: Tensor | None = None) -> Any:
        h = self._product(normed, f"{at}.fc.w")
        return self.ops.gelu(h, self.w[f"{at}.fc.b"], self.shape.gelu, room)

    def _mlp_back(
        self, at: int, dy: Tensor, a: Tensor, h: Tensor, normed: Tensor, room: Tensor | None = None
    ) -> Tensor:
        da = self._product_back(dy, a, f"{at}.proj.w")
        dh = self.ops.gelu_back(
            da,
            h,
            self.w[f"{at}.fc.b"],
            self.shape.gelu,
            self.g[f"{at}.fc.b"],
            room,
            self._later("gelu", at),
        )
        return self._product_back(dh, normed, f"{at}.fc.w")

    # -- the first block, where it depends on tokens alone --------------------------------------

    def _depends_on_tokens(self, tokens: Tensor) -> bool:
        """Whether the first block reads nothing but embeddings of tokens, of which there are few:
        no positions are added, nothing is dropped, and its two halves read the same."""
        few = 4 * self.words <= tokens[0].numel()
        return (
            self.shape.parallel and "positions" not in self.w and not self.shape.drop_embed and few
        )

    def _first_block(self, tokens: Tensor, heads: Heads) -> list[Add]:
        """As `_block`, for rows of the vocabulary up to where positions meet."""
        norms = [self._norm("0.norm1"), self._norm("0.norm2")]
        _, normed, saved = self.ops.add_norm(
            self.w["tokens"], [], norms, self.shape.eps, self.dtype
        )
        qkv = _rows_of(self._product(normed[0], "0.qkv.w", self._biases[0]), tokens)
        z, seen = self.ops.attention(qkv, heads, self._room("out", 0))
        a, h = self._gelu(0, normed[1])
        second = _rows_of(self._product(a, "0.proj.w"), tokens)
        self._tape.append((tokens, normed, saved, z, seen, heads, a, h))
        return [
            Add(self._product(z, "0.out.w"), self.w["0.out.b"], self._resid(0)),
            Add(second, self.w["0.proj.b"], self._resid(1)),
        ]

    def _first_block_back(self, deltas: list[Tensor]) -> Tensor:
        """The gradient of the table of tokens by way of the block, [S, V, D]."""
        tokens, normed, saved, z, seen, heads, a, h = self._tape.pop()
        dmlp = self._by_token(deltas[-1], tokens).to(self.dtype)
        dsecond = self._mlp_back(0, dmlp, a, h, normed[1])
        dz = self._product_back(deltas[0], z, "0.out.w")
        dqkv = self._by_token(self.ops.attention_back(dz, seen, heads), tokens)
        self.ops.columns(dqkv, self._still, self.g["0.qkv.b"])
        dfirst = self._product_back(dqkv.to(self.dtype), normed[0], "0.qkv.w")
        table, _ = self._norms_back(
            saved, None, [dfirst, dsecond], ["0.norm1", "0.norm2"], [], at=0
        )
        return table

    def _by_token(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """[S, B * T, D] added up to [S, V, D], in float32."""
        summed: Tensor = self.ops.by_token(rows, tokens.flatten(1), self.words)
        return summed

    def _norms(
        self, x: Tensor, adds: list[Add], names: list[str], rooms: Sequence[Tensor | None] = ()
    ) -> tuple[Tensor, list[Tensor], Any]:
        """An `add_norm`; what the classifier reads is kept as it passes."""
        norms = [self._norm(name) for name in names]
        result: tuple[Tensor, list[Tensor], Any] = self.ops.add_norm(
            x, adds, norms, self.shape.eps, self.dtype, rooms
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
        added = self._added(names, adds, at)
        biases = [self.g[name] for name in added]
        if names[0] == self.shape.read:
            g = self._read_back(g)
        result: tuple[Tensor, list[Tensor]] = self.ops.add_norm_back(
            saved,
            g,
            douts,
            norms,
            grads,
            adds,
            biases,
            self._rooms(added),
            self._sums(names, added),
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
        """[S, words, D] in the working precision; words are filled up to a multiple of 8 where that
        is a short one, since fast products want rows of 16 bytes."""
        head = self.w["head" if "head" in self.w else "tokens"].to(self.dtype)
        if self.dtype == torch.float32:
            return head
        return F.pad(head, (0, 0, 0, -head.shape[1] % 8))

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

    def _product(self, x: Tensor, name: str, bias: Tensor | None = None) -> Tensor:
        w = self.w[name]
        if self.shape.transposed:
            w = self._wide.get(name, w.mT)
        if bias is None:
            return (x[0] @ w[0])[None] if len(x) == 1 else torch.bmm(x, w)
        if len(x) == 1:
            return torch.addmm(bias[0], x[0], w[0])[None]
        return torch.baddbmm(bias[:, None], x, w)

    def _turned(self) -> dict[str, Tensor]:
        """The matrices of products with very many columns which lie in memory row by row of those.
        Products are so much slower by them that it pays to turn them once for every step."""
        if self._shelf is None:
            return {}
        part = "fc" if self.shape.transposed else "proj"
        every = self.ops.turned(of_all_layers(self.w, f"{part}.w", self.shape.layers))
        return {f"{at}.{part}.w": every[at][None] for at in range(self.shape.layers)}

    def _biases_of_products(self) -> Sequence[Tensor]:
        """Those that products add, layer by layer in the working precision; one cast for all."""
        biases = [self.w[f"{layer}.qkv.b"] for layer in range(self.shape.layers)]
        if self.dtype == torch.float32:
            return biases
        return torch.stack(biases).to(self.dtype).unbind()

    def _product_back(self, dy: Tensor, x: Tensor, name: str) -> Tensor:
        """The gradient of `x`; that of the matrix is written where it belongs, or left to the
        shelf."""
        w, out = self.w[name], self.g[name]
        left, right = (dy, x) if self.shape.transposed else (x, dy)
        back = w if self.shape.transposed else self._wide.get(name, w.mT)
        later = self._shelf is not None and self._shelf.has(name)
        if len(x) == 1:
            if not later:
                torch.mm(left[0].mT, right[0], out=out[0])
            return (dy[0] @ back[0])[None]
        torch.bmm(left.mT, right, out=out)
        return torch.bmm(dy, back)

    def _room(self, part: str, at: int, back: bool = False) -> Tensor | None:
        """Where to write what the product `part` of a layer reads, or on the way `back` the
        gradient of what it wrote; None for anywhere."""
        return None if self._shelf is None else self._shelf.room(f"{at}.{part}.w", back)

    def _later(self, kind: str, at: int) -> Later | None:
        return None if self._shelf is None else self._shelf.later(kind, at)

    def _sums(self, norms: list[str], biases: list[str]) -> Later | None:
        """Of norms, and of as many biases: those of a kind may be settled together."""
        layer, _, _ = norms[0].rpartition(".")
        kind = f"{len(norms)} {norms[0].rpartition('.')[2]} {len(biases)}"
        return self._later(kind, int(layer or 0))

    def _rooms(self, biases: list[str]) -> list[Tensor | None]:
        """As `_room`, for the gradients of what was added to the stream, by the names of the biases
        that were added with it. One will do for both of a block if nothing is dropped."""
        if not self.shape.drop_resid:
            biases = biases[:1]
        layers_parts = (name.split(".")[:2] for name in biases)
        return [self._room(part, int(layer), back=True) for layer, part in layers_parts]

    def _embed(self, tokens: Tensor) -> Tensor:
        x = _rows_of(self.w["tokens"], tokens)
        if "positions" in self.w:
            seeds, batch, length = tokens.shape
            x = x.view(seeds, batch, length, -1) + self.w["positions"][:, None, :length]
            x = x.flatten(1, 2)
        dropped: Tensor = self.ops.dropped(x, self._drop_embed())
        return dropped

    def _embed_back(self, tokens: Tensor, g: Tensor, dhead: Tensor, more: Tensor | None) -> None:
        """`more` is the gradient of the table of tokens by other ways than the stream."""
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


def _rows_of(table: Tensor, tokens: Tensor) -> Tensor:
    """Rows of a table [S, V, D] by tokens [S, B, T]: [S, B * T, D]."""
    each = torch.arange(len(table), device=tokens.device)[:, None] * table.shape[1]
    return F.embedding(tokens.flatten(1) + each, table.reshape(-1, table.shape[2]))
