"""What gradients are made of, kept for all layers side by side until the end: of matrices, of the
joint projections' biases, and sums over rows that wait to be finished.

The gradient of a 768 x 3072 matrix is 144 tiles of 128 x 128, and a GPU of 132 processors takes two
turns for it, the second nearly empty. Of twelve layers at once it is fourteen, of which only the
last is.

Cost: what every product reads, and the gradients of what they write, stay until the end of the way
back. One seed: those of several do not lie at equal distances, and fill a GPU anyway.
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
    """Room for the inputs of the four products of every layer, and for the gradients of their
    outputs: [layers, 1, rows, width] each.

    Rows of the first block may be none (it may have been done for the vocabulary instead): then the
    shelf has only what the block still does for every position, which is `out`.
    """

    def __init__(
        self,
        grads: dict[str, Tensor],
        shape: ModelShape,
        dtype: torch.dtype,
        ops: Any,
        still: Tensor,
    ) -> None:
        """`still` are columns of the joint projection whose gradients add up to nothing."""
        self.shape, self.dtype = shape, dtype
        self._grads = {part: of_all_layers(grads, f"{part}.w", shape.layers) for part in PARTS}
        self._biases = of_all_layers(grads, "qkv.b", shape.layers)
        self._ops, self._still = ops, still
        self._stacks: dict[tuple[str, bool], Tensor] = {}
        self._sums: dict[tuple[str, tuple[int, ...]], Waiting] = {}
        self._rows, self._first = 0, 0

    def clear(self, rows: int, first: int) -> None:
        """For another pass over so many rows, in which qkv, fc and proj begin at layer `first`."""
        self._stacks, self._sums, self._rows, self._first = {}, {}, rows, first

    def has(self, name: str) -> bool:
        """Whether the gradient of this matrix is taken by `settle`."""
        layer, part, _ = name.split(".")
        return part == "out" or int(layer) >= self._first

    def room(self, name: str, back: bool) -> Tensor | None:
        """[1, rows, width] for what a product reads, or for the gradient of what it wrote."""
        if not self.has(name):
            return None
        layer, part, _ = name.split(".")
        if (part, back) not in self._stacks:
            read, wrote = self._widths(part)
            size = (self.shape.layers, 1, self._rows, wrote if back else read)
            device = self._grads[part].device
            self._stacks[part, back] = torch.empty(size, dtype=self.dtype, device=device)
        return self._stacks[part, back][int(layer)]

    def settle(self) -> None:
        """Gradients of all matrices it has and of the joint projections' biases; waiting sums."""
        for part in PARTS:
            first = 0 if part == "out" else self._first
            if first == self.shape.layers:
                continue
            read = self._stacks[part, False][first:, 0]
            # what a block adds last may have one gradient for both of its halves
            wrote = self._stacks.get((part, True), self._stacks.get(("out", True)))
            assert wrote is not None
            wrote = wrote[first:, 0]
            left, right = (wrote, read) if self.shape.transposed else (read, wrote)
            torch.bmm(left.mT, right, out=self._grads[part][first:])
        if self._first < self.shape.layers:
            dqkv = self._stacks["qkv", True][self._first :, 0]
            self._ops.columns(dqkv, self._still, self._biases[self._first :])
        for waiting in self._sums.values():
            waiting.settle(self._ops.settle)
        self._stacks, self._sums = {}, {}

    def later(self, kind: str, layer: int) -> Slot:
        """For the sums of one operation of a layer, finished with those of other layers."""
        return Slot(self, kind, layer)

    def waiting(self, kind: str, shape: tuple[int, ...]) -> Waiting:
        if (kind, shape) not in self._sums:
            device = self._grads["out"].device
            self._sums[kind, shape] = Waiting(torch.empty(self.shape.layers, *shape, device=device))
        return self._sums[kind, shape]

    def _widths(self, part: str) -> tuple[int, int]:
        """Of what a product reads and writes."""
        read, wrote = self._grads[part].shape[1:]
        return (wrote, read) if self.shape.transposed else (read, wrote)


@dataclass
class Waiting:
    """Partial sums of one operation in all layers, and for every layer that has some where they
    go."""

    sums: Tensor
    targets: dict[int, list[Tensor]] = field(default_factory=dict)
    sources: Sequence[int] = ()

    def settle(self, settle: Callable[[Tensor, list[list[Tensor]], Sequence[int]], None]) -> None:
        layers = sorted(self.targets)
        assert layers == list(range(layers[0], layers[-1] + 1))
        settle(
            self.sums[layers[0] :][: len(layers)], [self.targets[n] for n in layers], self.sources
        )


@dataclass
class Slot:
    """One layer's part of what waits (`operations.Later`)."""

    shelf: GradientBuffer
    kind: str
    layer: int

    def room(self, *shape: int) -> Tensor:
        self._shape = shape
        return self.shelf.waiting(self.kind, shape).sums[self.layer]

    def into(self, targets: Sequence[Tensor], sources: Sequence[int]) -> None:
        waiting = self.shelf.waiting(self.kind, self._shape)
        assert waiting.sources in ((), sources)
        waiting.targets[self.layer], waiting.sources = list(targets), sources


def of_all_layers(tensors: dict[str, Tensor], name: str, layers: int) -> Tensor:
    """One parameter of all layers, or its gradients, as one tensor [layers, *shape]: they lie in
    one buffer, layer after layer."""
    each = [tensors[f"{layer}.{name}"][0] for layer in range(layers)]
    starts = [one.storage_offset() for one in each]
    apart = starts[1] - starts[0] if layers > 1 else each[0].numel()
    assert starts == [starts[0] + layer * apart for layer in range(layers)]
    return each[0].as_strided((layers, *each[0].shape), (apart, *each[0].stride()), starts[0])
