"""Linear probes for reading single sequences: one per layer for the state and some quotients.

Purpose: one probe per layer for all positions, so that it also reads sequences longer than those it
was fitted on. Rows are random positions of held-out sequences (where the run records them); probe
accuracy is measured on other sequences.
Cost: about two seconds for a bundled model on one core. A large model is run on fewer sequences
with more rows from each; see BUDGET.
Caveat: a probe shows what information is present, not what is used; patches show that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrace.lenses.parts import probes
from statetrace.lenses.parts.activations import residuals
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.probing_data import Target, choose_targets
from statetrace.lenses.result import Progress, no_progress, part_of
from statetrace.models import anatomy
from statetrace.tasks.word_problem import WordProblem

BUDGET = {"cpu": 1e12, "cuda": 4e14}
"""Floating-point operations for running the model: tens of seconds at most."""

SEQUENCES, FEWEST = 1500, 48
ROWS, TEST = 4000, 0.33
"""Fewest rows to fit on, and the share of the sequences held out for testing."""

MOST_QUOTIENTS = 3
MOST_CLASSES = 400
"""Targets with more classes are not probed: it would take minutes, and the unembedding reads the
state."""

TOLERANCE, ITERATIONS = 1e-3, 300


@dataclass(frozen=True)
class ProbeSet:
    """Probes of L + 1 layers for some targets.

    Attributes:
        targets: what they read, the state first where it is among them.
        fitted: the probes, on standardised features.
        mean, scale: [L + 1, 1, D], for standardising features.
        accuracy: target -> accuracy by layer, on held-out sequences.
    """

    targets: tuple[Target, ...]
    fitted: probes.Probes
    mean: Tensor
    scale: Tensor
    accuracy: dict[str, list[float]]

    def read(self, resid: Tensor) -> dict[str, Tensor]:
        """The residual stream [L + 1, T, D] -> target -> probabilities [L + 1, T, classes]."""
        features = (resid.to(self.mean.dtype) - self.mean) * self.scale
        return {
            target.name: self.fitted.probabilities(features, number)[:, 0]
            for number, target in enumerate(self.targets)
        }


def targets_of(task: WordProblem) -> list[Target]:
    """The state, and quotients: parity where there is one, then the largest ones."""
    quotients = list(task.quotients())
    ordered = quotients[:1] + sorted(quotients[1:], key=lambda q: -q.image.order)
    names = [q.name for q in ordered[:MOST_QUOTIENTS] if q.image.order <= MOST_CLASSES]
    return choose_targets(task, ("state", *names))


def class_labels(task: WordProblem, target: str) -> tuple[str, ...]:
    """Labels of the classes of a target: elements, or those of the quotient."""
    group = task.group if target == "state" else task.group.quotient(target).image
    return group.labels


def sequences_within(model: Any, tokens: int, fewest: int, most: int) -> int:
    """How many sequences of this many tokens the budget allows, between `fewest` and `most`."""
    size = sum(parameter.numel() for parameter in model.parameters())
    budget = BUDGET.get(device_of(model).type, BUDGET["cuda"])
    return max(fewest, min(most, int(budget / (2 * size * tokens))))


def fit_probes(
    model: Any, task: WordProblem, seed: int = 0, progress: Progress = no_progress
) -> ProbeSet | None:
    """None where no target has few enough classes."""
    targets = [target for target in targets_of(task) if target.classes <= MOST_CLASSES]
    if not targets:
        return None
    device = device_of(model)
    number = sequences_within(model, task.vocabulary.tokens(task.length), FEWEST, SEQUENCES)
    drawn = task.draw(number, seed)
    actions, states = (
        torch.from_numpy(array.astype("int64")).to(device)
        for array in (drawn.actions, drawn.states)
    )
    cut = max(1, round((1 - TEST) * len(drawn)))
    most = max(target.classes for target in targets)
    rows = min(20_000, max(ROWS, 8 * anatomy(model).width, 40 * most))
    each = min(task.length, -(-rows // cut))
    shuffled = torch.rand(
        len(drawn), task.length, generator=torch.Generator().manual_seed(seed)
    ).argsort(1)
    at = shuffled[:, :each].to(device)  # [n, each], actions
    positions = task.vocabulary.tokens(1) - 1 + task.vocabulary.stride * at
    resid = residuals(model, task.encode(actions), positions, done=part_of(progress, 0.0, 0.8))
    train, test = (part.flatten(1, 2).float() for part in (resid[:, :cut], resid[:, cut:]))
    mean, scale = probes.standardise(train, test)
    labels = [target.map.to(device)[states.gather(1, at)] for target in targets]  # [n, each]
    fitted = probes.fit(
        train,
        [label[:cut].flatten() for label in labels],
        [target.classes for target in targets],
        tolerance=TOLERANCE,
        max_iterations=ITERATIONS,
    )
    accuracy: dict[str, list[float]] = {}
    for number, (target, label) in enumerate(zip(targets, labels, strict=True)):
        accuracy[target.name] = []
        if len(label) > cut:
            score = fitted.score(test, label[cut:].flatten(), number)[0]
            accuracy[target.name] = score[:, 0].tolist()
    progress(1.0)
    return ProbeSet(tuple(targets), fitted, mean, scale, accuracy)
