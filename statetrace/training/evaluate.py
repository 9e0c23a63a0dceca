"""Loss and accuracy of the state, by length, on sequences a model was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from statetrace.groups import Quotient
from statetrace.models.device import float64_device
from statetrace.models.stack import ModelStack
from statetrace.tasks.batch import Batch, Split
from statetrace.tasks.word_problem import WordProblem


@dataclass(frozen=True)
class Accuracy:
    """Per length 1..T (the state after the t-th action counts as length t).

    Attributes:
        sequences: how many sequences were evaluated.
        loss: mean cross entropy over the model's whole vocabulary, per length.
        by_length: "state" and each quotient -> accuracy per length.
    """

    sequences: int
    loss: list[float]
    by_length: dict[str, list[float]]

    def mean(self, what: str = "state") -> float:
        values = self.by_length[what]
        return sum(values) / len(values)

    def record(self, step: int) -> dict[str, Any]:
        """A record of metrics.jsonl."""
        return {
            "kind": "evaluation",
            "step": step,
            "loss": sum(self.loss) / len(self.loss),
            "accuracy": {what: self.mean(what) for what in self.by_length},
            "loss_by_length": self.loss,
            "accuracy_by_length": self.by_length,
        }


def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The paper's objective: mean cross entropy of s_t given a_0 ... a_t over all t."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def accuracy(
    model: nn.Module,
    task: WordProblem,
    split: Split,
    quotients: tuple[Quotient, ...] = (),
    autocast: AbstractContextManager[Any] | None = None,
    batch: int = 512,
) -> Accuracy:
    """Evaluate on a split.

    A quotient counts as correct if the image of the predicted state is: parity accuracy is the
    accuracy of the prediction's parity.
    """
    return stacked_accuracy([model], task, split, quotients, autocast, batch)[0]


def stacked_accuracy(
    models: Sequence[Any],
    task: WordProblem,
    split: Split,
    quotients: tuple[Quotient, ...] = (),
    autocast: AbstractContextManager[Any] | None = None,
    batch: int = 512,
) -> list[Accuracy]:
    """The accuracies of several models of one shape."""
    stack, device = ModelStack(models), split.actions.device
    maps = [torch.as_tensor(q.map.astype("int64"), device=device) for q in quotients]
    total: Tensor | float = 0.0
    for start in range(0, len(split), batch):
        rows = slice(start, min(start + batch, len(split)))
        examples, states = split.rows(rows), split.states[rows].long()

        def sums(model: Any, examples: Batch = examples, states: Tensor = states) -> Tensor:
            """Of the losses, and of correct states and images, by length [2 + quotients, T]."""
            with autocast or nullcontext():
                logits = stack.predict(model, examples.tokens)
            predicted = task.read_out(logits).argmax(-1)  # [B, T]
            correct = [predicted == states, *(m[predicted] == m[states] for m in maps)]
            targets = examples.targets
            losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            losses = losses.view(targets.shape)[:, task.vocabulary.reads]
            rows = [losses.sum(0), *(same.sum(0) for same in correct)]
            return torch.stack([row.to(float64_device(device)).double() for row in rows])

        total = total + stack.each(sums, examples.tokens.numel())
    assert isinstance(total, Tensor)
    names = ("state", *(quotient.name for quotient in quotients))
    accuracies = []
    for loss, *correct in (total.cpu() / len(split)).tolist():
        by_length = dict(zip(names, correct, strict=True))
        accuracies.append(Accuracy(len(split), loss, by_length))
    return accuracies
