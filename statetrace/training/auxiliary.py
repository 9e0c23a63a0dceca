"""An auxiliary loss (appendix H): a linear classifier on an early layer's residual stream.

Purpose: it reads the parity of the state (or another quotient), or that and the action, from the
residual stream behind one block. Its loss is added to the task's, so that the model is taught to
have the quotient there; the training loss in the log is the task's alone. The classifier belongs to
its stage: later stages and users of a checkpoint do not see it, but its weights are kept in the
checkpoint, in auxiliary.safetensors.

Cost: one matrix of width x classes; evaluations read the analysis sequences once more.
Caveat: it starts at zero, so that it needs no random numbers and leaves the model alone at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from statetrace.config.stages import usual_layer
from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.models import anatomy
from statetrace.tasks.batch import UNSUPERVISED, Batch
from statetrace.tasks.vocabulary import Vocabulary

ACTION = "action"


@dataclass(frozen=True)
class Auxiliary:
    """What is read, and where.

    Attributes:
        group: whose elements are actions and states.
        quotient: of the state.
        action: whether the action is read too, in one class with the quotient.
        layer: the block behind which it is read, from 1; None for a quarter of the depth.
        weight: of its loss beside the task's.
        vocabulary: tokens of actions and states.
    """

    group: Group
    quotient: Quotient
    action: bool
    layer: int | None
    weight: float
    vocabulary: Vocabulary

    @property
    def classes(self) -> int:
        return self.quotient.image.order * (self.group.order if self.action else 1)

    def layer_of(self, layers: int) -> int:
        """The block, from 1, in a model of so many."""
        if self.layer is None:
            return usual_layer(layers)
        if self.layer > layers:
            raise StatetraceError(
                f"auxiliary_layer {self.layer} was asked for, but the model has {layers} layers; "
                f"use 1 to {layers}"
            )
        return self.layer


class Labels(nn.Module):
    """Which class a position has. The tables wait on the device: copying them there in every step
    would make the processor wait for the GPU.

    The action is what leads from one state to the next, so the states tell it, whether actions are
    tokens or sentences."""

    image: torch.Tensor  # token -> image of the state, [vocab]
    number: torch.Tensor  # token -> the state, [vocab]
    between: torch.Tensor  # state before, state after -> the action between them, [order, order]

    def __init__(self, auxiliary: Auxiliary) -> None:
        super().__init__()
        self.auxiliary = auxiliary
        of, words = auxiliary.group, auxiliary.vocabulary
        tokens = list(words.elements)
        image, number = torch.zeros(2, words.size, dtype=torch.long)
        image[tokens] = torch.from_numpy(auxiliary.quotient.map.astype("int64"))
        number[tokens] = torch.arange(of.order)
        between = torch.from_numpy(of.table[of.inverse].astype("int64"))
        for name, table in (("image", image), ("number", number), ("between", between)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, targets: torch.Tensor) -> torch.Tensor:
        """Classes [B, T] of a batch, UNSUPERVISED where no state is asked for."""
        classes = self.image[targets.clamp(min=0)]
        if self.auxiliary.action:
            reads, of = self.auxiliary.vocabulary.reads, self.auxiliary.group
            after = self.number[targets[:, reads].clamp(min=0)]  # [B, actions]
            before = F.pad(after[:, :-1], (1, 0), value=of.identity)
            classes = classes * of.order
            classes[:, reads] += self.between[before, after]
        return classes.masked_fill(targets < 0, UNSUPERVISED)


class Reader(nn.Module):
    """A model and the classifier that reads from it; called like the model itself.

    `read` [B, T, classes] is what the classifier said of the latest call.
    """

    def __init__(self, model: Any, auxiliary: Auxiliary) -> None:
        super().__init__()
        found = anatomy(model)
        self.auxiliary = auxiliary
        self.layer = auxiliary.layer_of(found.layers)
        self.model = model
        self.labels = Labels(auxiliary)
        self.classifier = nn.Linear(found.width, auxiliary.classes)
        nn.init.zeros_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)
        self.read = torch.empty(0)
        self._seen: list[torch.Tensor] = []
        found.blocks[self.layer - 1].register_forward_hook(self._catch)

    def _catch(self, block: nn.Module, inputs: Any, output: Any) -> None:
        self._seen.append(output[0] if isinstance(output, tuple) else output)

    def forward(self, input_ids: torch.Tensor, use_cache: bool = False) -> Any:
        self._seen.clear()
        output = self.model(input_ids=input_ids, use_cache=use_cache)
        self.read = self.classifier(self._seen.pop()).float()
        return output

    def loss(self, targets: torch.Tensor) -> torch.Tensor:
        """Of the latest call, weighted."""
        return self.loss_of(self.read, targets)

    def loss_of(self, read: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The same of what a classifier like this one said, [B, T, classes]."""
        labels = self.labels(targets)
        return self.auxiliary.weight * F.cross_entropy(read.flatten(0, 1), labels.flatten())

    def named(self) -> Iterator[tuple[str, nn.Parameter]]:
        for name, parameter in self.classifier.named_parameters():
            yield f"auxiliary.{name}", parameter


@torch.no_grad()
def reading(
    module: nn.Module,
    reader: Reader,
    batches: tuple[Batch, ...],
    autocast: AbstractContextManager[Any],
) -> dict[str, float]:
    """How often the classifier is right: of the quotient, and of (quotient, action) if it reads
    both. `module` is the reader or its wrapper."""
    auxiliary = reader.auxiliary
    name = f"{auxiliary.quotient.name} at layer {reader.layer}"
    order = auxiliary.group.order
    right = {name: 0}
    asked = 0
    was_training = module.training
    module.eval()
    try:
        for batch in batches:
            with autocast:
                module(input_ids=batch.tokens, use_cache=False)
            labels = reader.labels(batch.targets)[batch.mask]
            said = reader.read.argmax(-1)[batch.mask]
            asked += len(labels)
            if auxiliary.action:
                both = f"{auxiliary.quotient.name}, action at layer {reader.layer}"
                right[both] = right.get(both, 0) + int((said == labels).sum())
                said, labels = said // order, labels // order
            right[name] += int((said == labels).sum())
    finally:
        module.train(was_training)
    return {what: count / asked for what, count in right.items()}
