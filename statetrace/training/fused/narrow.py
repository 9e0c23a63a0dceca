"""The fused transformer for many narrow models at once: each sublayer is a kernel or two."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from statetrace.training.fused.operations import HeadLayout, Residual
from statetrace.training.fused.shape import ModelShape
from statetrace.training.fused.transformer import FusedTransformer

WIDTHS = (16, 32, 64, 128)
"""A product has at least 16 columns, and a program holds rows of up to 128."""


def is_narrow(shape: ModelShape, hidden: int) -> bool:
    """Whether `NarrowTransformer` supports models of this shape."""
    fits = shape.width in WIDTHS and hidden % shape.width == 0
    return fits and not shape.drop_resid and shape.classified is None


class NarrowTransformer(FusedTransformer):
    """As `FusedTransformer`, with the kernels of kernels/narrow.py. Not for gradients `at_once`,
    nor for float32 on a GPU, where wide tiles do not fit."""

    def _block(
        self, layer: int, x: Tensor, adds: list[Residual], heads: HeadLayout
    ) -> tuple[Tensor, list[Residual]]:
        normed, qkv = self.ops.project(
            x, adds, self._norm(f"{layer}.norm1"), self._oriented(f"{layer}.qkv.w"),
            self.w[f"{layer}.qkv.b"], self.shape.eps,
        )  # fmt: skip
        z, attended = self.ops.attention(qkv, heads)
        inner, y = self.ops.mlp(normed.x, z, self._mlp(layer), self.shape.eps)
        self._tape.append((adds, normed, z, attended, heads, inner))
        second = self._residual(layer, "proj", y)
        if not self.shape.parallel:
            return inner.x, [second]
        first = self._residual(layer, "out", self._product(z, f"{layer}.out.w"))
        return inner.x, [first, second]

    def _block_back(
        self, layer: int, g: Tensor, deltas: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        adds, normed, z, attended, heads, inner = self._tape.pop()
        dy, mlp = deltas[-1], self._mlp(layer)
        hidden = self.ops.mlp_back(dy, inner, mlp, self.g[f"{layer}.fc.b"])
        self._matrix_back(hidden.a, dy, f"{layer}.proj.w")
        self._matrix_back(inner.n, hidden.dh, f"{layer}.fc.w")
        before = [] if self.shape.parallel else [self.g[f"{layer}.out.b"]]
        g, delta, dz = self.ops.project_back(
            hidden.dh, g, inner, mlp.norm, mlp.fc, self._norm_grads(f"{layer}.norm2"), before,
            mlp.out and mlp.out[0],
        )  # fmt: skip
        if self.shape.parallel:
            dz = self._product_back(deltas[0], z, f"{layer}.out.w")
        else:
            self._matrix_back(z, delta, f"{layer}.out.w")
        dqkv = self.ops.attention_back(dz, attended, heads)
        self.ops.columns(dqkv, self._zero_columns, self.g[f"{layer}.qkv.b"])
        self._matrix_back(normed.n, dqkv, f"{layer}.qkv.w")
        g, delta, _ = self.ops.project_back(
            dqkv, g, normed, self._norm(f"{layer}.norm1"), self._oriented(f"{layer}.qkv.w"),
            self._norm_grads(f"{layer}.norm1"), [self.g[add.role] for add in adds],
        )  # fmt: skip
        return g, [delta] * len(adds)

    def _mlp(self, layer: int) -> Any:
        out = None
        if not self.shape.parallel:
            out = self._oriented(f"{layer}.out.w"), self.w[f"{layer}.out.b"]
        return self.ops.Mlp(
            self._norm(f"{layer}.norm2"), self._oriented(f"{layer}.fc.w"),
            self.w[f"{layer}.fc.b"], self._oriented(f"{layer}.proj.w"), out,
            self.shape.gelu == "tanh",
        )  # fmt: skip
