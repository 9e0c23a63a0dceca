"""The state after each action, optionally with an auxiliary classifier, or a quotient of the state.

A quotient, such as parity, is predicted with the state's own head. The paper trains tokens 0 and 1;
here every state of the correct coset counts as correct, and the loss is -log of the total
probability that the head gives to that coset. The head thus stays usable for the state task: no
state is preferred over another of its coset, no token comes to mean "even", and a model that knows
the state has already solved the quotient. Accuracy is that of the image of the most likely token,
as every evaluation reports it for the quotient.

Cost: one more log-sum-exp over the vocabulary than the state task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from statetrace.config.stages import Stage, StageSettings
from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem
from statetrace.training.auxiliary import ACTION, AuxiliaryTask
from statetrace.training.objectives.objective import ROWS, Objective

if TYPE_CHECKING:
    from statetrace.training.setup import TrainingPlan


def state(plan: TrainingPlan, stage: Stage) -> Objective:
    """On the first `stage.length` actions of the training sequences."""
    return Objective(
        source=plan.training_split,
        vocabulary=plan.task.vocabulary,
        name="state",
        auxiliary=_auxiliary(plan.task, stage.settings),
        fingerprint=plan.task.vocabulary.fingerprint,
    )


def _auxiliary(task: WordProblem, settings: StageSettings) -> AuxiliaryTask | None:
    if settings.auxiliary is None:
        return None
    name, *rest = (part.strip() for part in settings.auxiliary.split(","))
    if rest not in ([], [ACTION]):
        raise StatetraceError(
            f"auxiliary '{settings.auxiliary}' is not valid; use the name of a quotient, such as "
            f"parity, alone or with the action: 'parity,{ACTION}'"
        )
    (quotient,) = task.quotients((name,))
    weight = 1.0 if settings.auxiliary_weight is None else settings.auxiliary_weight
    layer = settings.auxiliary_layer
    return AuxiliaryTask(task.group, quotient, bool(rest), layer, weight, task.vocabulary)


def quotient(plan: TrainingPlan, stage: Stage) -> Objective:
    """The quotient named by the stage's objective, of the state after every action."""
    task = plan.task
    (target,) = task.quotients((stage.settings.objective,))
    cosets = Cosets(target, task.vocabulary, plan.world.device)
    return Objective(
        source=plan.training_split,
        vocabulary=task.vocabulary,
        name=target.name,
        loss=cosets.loss,
        correct=cosets.correct,
        held_out=plan.analysis.batches(ROWS, stage.length),
        fingerprint=task.vocabulary.fingerprint,
    )


class Cosets:
    """Which tokens represent states of the same coset.

    Attributes:
        same_coset: [order, vocab], True where a token stands for a state with the same image as
            that element; False for tokens that stand for no state.
        element: [vocab], the element that a token stands for; 0 for tokens that stand for none.
    """

    def __init__(
        self, target: Quotient, vocabulary: Vocabulary, device: torch.device | str
    ) -> None:
        image = torch.full((vocabulary.size,), -1)
        image[list(vocabulary.elements)] = torch.from_numpy(target.map.astype("int64"))
        elements = torch.as_tensor(vocabulary.elements)
        self.same_coset = (image[elements, None] == image[None]).to(device)
        self.element = torch.zeros_like(image)
        self.element[elements] = torch.arange(len(elements))
        self.element = self.element.to(device)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(coset of the target), mean over supervised positions. logits [B, T, vocab]."""
        supervised = targets >= 0  # [B, T]
        allowed = self.same_coset[self.element[targets.clamp(min=0)]]  # [B, T, vocab]
        mass = logits.masked_fill(~allowed, -torch.inf).logsumexp(-1)  # [B, T]
        # unsupervised positions have a finite loss too, so 0 times it is 0
        return ((logits.logsumexp(-1) - mass) * supervised).sum() / supervised.sum()

    def correct(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.same_coset[self.element[targets.clamp(min=0)], predictions]
