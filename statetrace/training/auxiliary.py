"""An auxiliary loss (appendix H): a linear classifier on an early layer's residual stream.

Purpose: after one block it predicts the parity of the state (or another quotient), alone or with
the action. Its loss is added to the task's, so that the model learns to represent the quotient
there; the training loss in the log is the task's alone. The classifier belongs to its stage: later
stages and users of a checkpoint do not see it, but its weights are saved with the checkpoint, in
auxiliary.safetensors.

Cost: one matrix of width x classes; evaluations read the analysis sequences once more.
Caveat: it starts at zero, so it needs no random numbers and does not affect the model at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from statetrace.config.stages import default_layer
from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.models import anatomy
from statetrace.models.predict import evaluating
from statetrace.tasks.batch import UNSUPERVISED, Batch
from statetrace.tasks.vocabulary import Vocabulary

ACTION = "action"


@dataclass(frozen=True)
class AuxiliaryTask:
    """What the classifier predicts, and where.

    Attributes:
        group: whose elements are actions and states.
        quotient: of the state.
        action: whether the action is predicted too, jointly with the quotient.
        layer: the block, from 1, after which the classifier is attached; None for a quarter of the
            depth.
        weight: of its loss, relative to the task's.
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

    def resolve_layer(self, layers: int) -> int:
        """The block, from 1, in a model with that many."""
        if self.layer is None:
            return default_layer(layers)
        if self.layer > layers:
            raise StatetraceError(
                f"auxiliary_layer {self.layer} is beyond the model's {layers} layers; "
                f"use 1 to {layers}"
            )
        return self.layer


class Labels(nn.Module):
    """The class of every position. The tables live on the device: copying them there in every step
    would make the CPU wait for the GPU.

    Actions are recovered from consecutive states, so it makes no difference whether they are
    written as tokens or as sentences."""

    image: torch.Tensor  # token -> image of the state, [vocab]
    state: torch.Tensor  # token -> the state, [vocab]
    action: torch.Tensor  # state before, state after -> the action between them, [order, order]

    def __init__(self, task: AuxiliaryTask) -> None:
        super().__init__()
        self.task = task
        group, tokens = task.group, list(task.vocabulary.elements)
        image, state = torch.zeros(2, task.vocabulary.size, dtype=torch.long)
        image[tokens] = torch.from_numpy(task.quotient.map.astype("int64"))
        state[tokens] = torch.arange(group.order)
        action = torch.from_numpy(group.table[group.inverse].astype("int64"))
        for name, table in (("image", image), ("state", state), ("action", action)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, targets: torch.Tensor) -> torch.Tensor:
        """Classes [B, T] of a batch, UNSUPERVISED where the target is."""
        classes = self.image[targets.clamp(min=0)]
        if self.task.action:
            reads, group = self.task.vocabulary.reads, self.task.group
            after = self.state[targets[:, reads].clamp(min=0)]  # [B, actions]
            before = F.pad(after[:, :-1], (1, 0), value=group.identity)
            classes = classes * group.order
            classes[:, reads] += self.action[before, after]
        return classes.masked_fill(targets < 0, UNSUPERVISED)


class ModelWithAuxiliary(nn.Module):
    """A model with its auxiliary classifier; called like the model itself.

    `logits` [B, T, classes] are the classifier's of the latest call.
    """

    def __init__(self, model: Any, task: AuxiliaryTask) -> None:
        super().__init__()
        parts = anatomy(model)
        self.task = task
        self.layer = task.resolve_layer(parts.layers)
        self.model = model
        self.labels = Labels(task)
        self.classifier = nn.Linear(parts.width, task.classes)
        nn.init.zeros_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)
        self.logits = torch.empty(0)
        self._captured: list[torch.Tensor] = []
        parts.blocks[self.layer - 1].register_forward_hook(self._capture)

    def _capture(self, block: nn.Module, inputs: Any, output: Any) -> None:
        self._captured.append(output[0] if isinstance(output, tuple) else output)

    def forward(self, input_ids: torch.Tensor, use_cache: bool = False) -> Any:
        self._captured.clear()
        output = self.model(input_ids=input_ids, use_cache=use_cache)
        self.logits = self.classifier(self._captured.pop()).float()
        return output

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The weighted loss of classifier logits [B, T, classes]."""
        labels = self.labels(targets)
        return self.task.weight * F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def named_classifier(self) -> Iterator[tuple[str, nn.Parameter]]:
        for name, parameter in self.classifier.named_parameters():
            yield f"auxiliary.{name}", parameter


def evaluate_auxiliary(
    module: nn.Module,
    auxiliary: ModelWithAuxiliary,
    batches: tuple[Batch, ...],
    autocast: AbstractContextManager[Any],
) -> dict[str, float]:
    """Accuracy of the classifier: of the quotient, and of (quotient, action) if it predicts both.
    `module` is the model with its classifier, or the wrapper around it."""
    task = auxiliary.task
    name = f"{task.quotient.name} at layer {auxiliary.layer}"
    both = f"{task.quotient.name}, action at layer {auxiliary.layer}"
    order = task.group.order
    correct = {name: 0}
    supervised = 0
    with evaluating(module):
        for batch in batches:
            with autocast:
                module(input_ids=batch.tokens, use_cache=False)
            labels = auxiliary.labels(batch.targets)[batch.mask]
            predicted = auxiliary.logits.argmax(-1)[batch.mask]
            supervised += len(labels)
            if task.action:
                correct[both] = correct.get(both, 0) + int((predicted == labels).sum())
                predicted, labels = predicted // order, labels // order
            correct[name] += int((predicted == labels).sum())
    return {what: count / supervised for what, count in correct.items()}
