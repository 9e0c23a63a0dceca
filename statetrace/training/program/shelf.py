"""What the gradients of matrices are made of, kept for all layers side by side until the end.

The gradient of a 768 x 3072 matrix is 144 tiles of 128 x 128, and a GPU of 132 processors takes two
turns for it, the second nearly empty. Of twelve layers at once it is thirteen turns, all full.

Cost: what every product reads, and the gradients of what they write, stay until the end of the way
back. One seed: those of several do not lie at equal distances, and fill a GPU anyway.
"""

from __future__ import annotations

import torch
from torch import Tensor

from statetrace.training.program.shape import Shape

PARTS = ("qkv", "out", "fc", "proj")


class Shelf:
    """Room for the inputs of the four products of every layer, and for the gradients of their
    outputs: [layers, 1, rows, width] each.

    Rows of the first block may be none (it may have been done for the vocabulary instead): then the
    shelf has only what the block still does for every position, which is `out`.
    """

    def __init__(self, grads: dict[str, Tensor], shape: Shape, dtype: torch.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self._grads = {part: _layers(grads, part, shape.layers) for part in PARTS}
        self._stacks: dict[tuple[str, bool], Tensor] = {}
        self._rows, self._first = 0, 0

    def clear(self, rows: int, first: int) -> None:
        """For another pass over so many rows, in which qkv, fc and proj begin at layer `first`."""
        self._stacks, self._rows, self._first = {}, rows, first

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
        """Gradients of all matrices it has."""
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
        self._stacks = {}

    def _widths(self, part: str) -> tuple[int, int]:
        """Of what a product reads and writes."""
        read, wrote = self._grads[part].shape[1:]
        return (wrote, read) if self.shape.transposed else (read, wrote)


def _layers(grads: dict[str, Tensor], part: str, layers: int) -> Tensor:
    """The gradients of one matrix of all layers as one tensor [layers, *shape]: they lie in one
    buffer, layer after layer."""
    each = [grads[f"{layer}.{part}.w"][0] for layer in range(layers)]
    starts = [one.storage_offset() for one in each]
    apart = starts[1] - starts[0] if layers > 1 else each[0].numel()
    assert starts == [starts[0] + layer * apart for layer in range(layers)]
    return each[0].as_strided((layers, *each[0].shape), (apart, *each[0].stride()), starts[0])
