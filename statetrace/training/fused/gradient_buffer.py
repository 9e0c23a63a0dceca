"""Buffers from which the gradients of all layers are computed together at the end of the backward
pass: of matrices, of the joint projections' biases, and partial sums over rows.

The gradient of one 768 x 3072 matrix has 144 tiles of 128 x 128, which takes a GPU with 132
processors two rounds, the second nearly empty. Twelve layers together take fourteen rounds, of
which only the last is not full.

Cost: the inputs of all products and the gradients of their outputs stay in memory until the end of
the backward pass. For one seed only: several do not lie at equal distances, and fill a GPU anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from statetrace.training.fused.shape import ModelShape

PARTS = ("qkv", "out", "fc", "proj")


class GradientBuffer:
    """Inputs of the four products of every layer and gradients of their outputs, each
    [layers, 1, rows, width].

    If the first block was computed for the vocabulary instead of for rows, the buffer holds only
    its `out`, which is still computed for every position.
    """

    def __init__(
        self,
        grads: dict[str, Tensor],
        shape: ModelShape,
        dtype: torch.dtype,
        ops: Any,
        zero_columns: Tensor,
    ) -> None:
        """`zero_columns` are those of the joint projection whose bias has a zero gradient."""
        self.shape, self.dtype = shape, dtype
        self._grads = {part: across_layers(grads, f"{part}.w", shape.layers) for part in PARTS}
        self._biases = across_layers(grads, "qkv.b", shape.layers)
        self._ops, self._zero_columns = ops, zero_columns
        self._stacks: dict[tuple[str, bool], Tensor] = {}
        self._sums: dict[tuple[str, tuple[int, ...]], PendingSums] = {}
        self._rows, self._first = 0, 0

    def clear(self, rows: int, first: int) -> None:
        """Prepare a pass over `rows` rows, in which qkv, fc and proj start at layer `first`."""
        self._stacks, self._sums, self._rows, self._first = {}, {}, rows, first

    def has(self, name: str) -> bool:
        """Whether `finish` computes the gradient of this matrix."""
        layer, part, _ = name.split(".")
        return part == "out" or int(layer) >= self._first

    def slot(self, name: str, back: bool) -> Tensor | None:
        """[1, rows, width] for the input of a product, or for the gradient of its output."""
        if not self.has(name):
            return None
        layer, part, _ = name.split(".")
        if (part, back) not in self._stacks:
            read, wrote = self._widths(part)
            size = (self.shape.layers, 1, self._rows, wrote if back else read)
            device = self._grads[part].device
            self._stacks[part, back] = torch.empty(size, dtype=self.dtype, device=device)
        return self._stacks[part, back][int(layer)]

    def finish(self) -> None:
        """Compute the gradients of all its matrices and of the joint projections' biases, and
        finish the pending sums."""
        for part in PARTS:
            first = 0 if part == "out" else self._first
            if first == self.shape.layers:
                continue
            read = self._stacks[part, False][first:, 0]
            # the two outputs of a block may share one gradient
            wrote = self._stacks.get((part, True), self._stacks.get(("out", True)))
            assert wrote is not None
            wrote = wrote[first:, 0]
            left, right = (wrote, read) if self.shape.transposed else (read, wrote)
            torch.bmm(left.mT, right, out=self._grads[part][first:])
        if self._first < self.shape.layers:
            dqkv = self._stacks["qkv", True][self._first :, 0]
            self._ops.columns(dqkv, self._zero_columns, self._biases[self._first :])
        for pending in self._sums.values():
            pending.finish(self._ops.finish_sums)
        self._stacks, self._sums = {}, {}

    def pending(self, kind: str, shape: tuple[int, ...]) -> PendingSums:
        if (kind, shape) not in self._sums:
            sums = torch.empty(self.shape.layers, *shape, device=self._grads["out"].device)
            self._sums[kind, shape] = PendingSums(sums)
        return self._sums[kind, shape]

    def _widths(self, part: str) -> tuple[int, int]:
        """The widths of a product's input and output."""
        read, wrote = self._grads[part].shape[1:]
        return (wrote, read) if self.shape.transposed else (read, wrote)


@dataclass
class PendingSums:
    """Partial sums of one operation in all layers, and the gradients they belong to by layer."""

    sums: Tensor
    targets: dict[int, list[Tensor]] = field(default_factory=dict)
    sources: Sequence[int] = ()

    def finish(self, add: Callable[[Tensor, list[list[Tensor]], Sequence[int]], None]) -> None:
        layers = sorted(self.targets)
        assert layers == list(range(layers[0], layers[-1] + 1))
        sums = self.sums[layers[0] :][: len(layers)]
        add(sums, [self.targets[n] for n in layers], self.sources)


@dataclass
class LayerSums:
    """The sums of one operation of a layer (`operations.DeferredSums`), finished together with
    those of other layers."""

    buffer: GradientBuffer
    kind: str
    layer: int

    def allocate(self, *shape: int) -> Tensor:
        self._shape = shape
        return self.buffer.pending(self.kind, shape).sums[self.layer]

    def add_to(self, targets: Sequence[Tensor], sources: Sequence[int]) -> None:
        pending = self.buffer.pending(self.kind, self._shape)
        assert pending.sources in ((), sources)
        pending.targets[self.layer], pending.sources = list(targets), sources


def across_layers(tensors: dict[str, Tensor], name: str, layers: int) -> Tensor:
    """A parameter of all layers, or its gradients, as one view [layers, *shape]: they lie in one
    buffer, layer after layer."""
    each = [tensors[f"{layer}.{name}"][0] for layer in range(layers)]
    starts = [tensor.storage_offset() for tensor in each]
    apart = starts[1] - starts[0] if layers > 1 else each[0].numel()
    assert starts == [starts[0] + layer * apart for layer in range(layers)]
    return each[0].as_strided((layers, *each[0].shape), (apart, *each[0].stride()), starts[0])
