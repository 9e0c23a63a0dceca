"""Loss and accuracy of the state, by length, on sequences a model was not trained on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from statetrace.groups import Quotient
from statetrace.models.device import float64_device
from statetrace.models.predict import evaluating, predict
from statetrace.tasks.batch import Split
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
    batch: int = 512,
    autocast: AbstractContextManager[Any] | None = None,
) -> Accuracy:
    """Evaluate on a split.

    A quotient counts as correct if the image of the predicted state is: parity accuracy is the
    accuracy of the prediction's parity.
    """
    n, length, device = len(split), split.length, split.actions.device
    maps = {q.name: torch.as_tensor(q.map.astype("int64"), device=device) for q in quotients}
    correct = {
        what: torch.zeros(length, dtype=torch.long, device=device) for what in ("state", *maps)
    }
    total = torch.zeros(length, dtype=torch.float64, device=float64_device(device))
    with evaluating(model):
        for start in range(0, n, batch):
            rows = slice(start, min(start + batch, n))
            examples = split.rows(rows)
            targets = examples.targets
            with autocast or nullcontext():
                logits = predict(model, examples.tokens)
            states = split.states[rows].long()
            predicted = task.read_out(logits).argmax(-1)  # [B, T]
            correct["state"] += (predicted == states).sum(0)
            for name, image in maps.items():
                correct[name] += (image[predicted] == image[states]).sum(0)
            losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            total += losses.view(targets.shape)[:, task.vocabulary.reads].sum(0).to(total.device)
    by_length = {what: (count.cpu().double() / n).tolist() for what, count in correct.items()}
    return Accuracy(n, (total / n).tolist(), by_length)
