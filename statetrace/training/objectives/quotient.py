"""Predict a quotient of the state, such as its parity, with the state's own head.

The paper asks for tokens 0 and 1. Here every state of the right coset is a right answer, and the
loss is -log of the probability that the head gives to all of them together. This leaves the head
intact for the state task: it asks for no state rather than another of its coset, so no token comes
to mean "even", and a model that knows the state has already solved the quotient. Accuracy is that
of the image of the most likely token, the same that every evaluation reports for the quotient.

Cost: one more log-sum-exp over the vocabulary than the state task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from statetrace.config.stages import Stage
from statetrace.groups import Quotient
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.training.objectives.objective import ROWS, Objective

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan


def quotient(plan: TrainingPlan, stage: Stage, device: torch.device | str) -> Objective:
    """The quotient that the stage's objective names, of the state after every action."""
    task = plan.task
    (asked,) = task.quotients((stage.wanted.objective,))
    cosets = Cosets(asked, task.vocabulary, device)
    analysis = task.split(plan.splits[1][: stage.evaluation.evaluate_sequences], device)
    return Objective(
        source=task.split(plan.splits[0], device),
        vocabulary=task.vocabulary,
        what=asked.name,
        loss=cosets.loss,
        right=cosets.right,
        held_out=analysis.batches(ROWS, stage.length),
        fingerprint=task.vocabulary.fingerprint,
    )


class Cosets:
    """Which tokens stand for states of the same coset.

    Attributes:
        alike: [order, vocab], True where a token stands for a state with the same image as that
            element; tokens that stand for no state are like nothing.
        number: [vocab], the element that a token stands for; 0 for tokens that stand for none.
    """

    def __init__(self, of: Quotient, vocabulary: Vocabulary, device: torch.device | str) -> None:
        image = torch.full((vocabulary.size,), -1)
        image[list(vocabulary.elements)] = torch.from_numpy(of.map.astype("int64"))
        elements = torch.as_tensor(vocabulary.elements)
        self.alike = (image[elements, None] == image[None]).to(device)
        self.number = torch.zeros_like(image)
        self.number[elements] = torch.arange(len(elements))
        self.number = self.number.to(device)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(coset of the target), mean over supervised positions. logits [B, T, vocab]."""
        asked = targets >= 0  # [B, T]
        allowed = self.alike[self.number[targets.clamp(min=0)]]  # [B, T, vocab]
        mass = logits.masked_fill(~allowed, -torch.inf).logsumexp(-1)  # [B, T]
        # a position that asks for nothing has a finite loss too, so 0 times it is 0
        return ((logits.logsumexp(-1) - mass) * asked).sum() / asked.sum()

    def right(self, answers: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.alike[self.number[targets.clamp(min=0)], answers]
