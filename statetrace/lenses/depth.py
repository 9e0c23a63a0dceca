"""The number of layers that an answer needs, by length and by link.

In pairs of sequences of n actions that differ in the first one, the last token is reset at some
layer to the corrupted run while all other tokens stay as in the clean run. As long as the clean
answer wins, it is not yet decided at that layer; from the first layer where it does not, the last
token holds it. Counting decides every length at the same layer, the associative algorithm needs
another layer each time the length doubles, the sequential one a layer per action. The paper's heat
maps show this for one length; this lens measures one of their columns for many lengths.

A group has a chain of quotients, such as S4, S3, parity. Pairs that differ in parity measure where
parity is decided; pairs that agree in parity and differ in S3, where S3 is; pairs that agree in all
quotients, where the rest is. Each of these is a *link*.

The vote for the clean run is the log-odds of its class of the link against that of the corrupted
run, on a scale from 0 (as in the corrupted run) to 1 (as in the clean run). So neither the softness
nor the scale of the logits matters, and where two circuits add up in the logits the vote is the
share of the one that is undecided.

Cost: (lengths) x (layers) forward passes over `pairs` pairs, most of them short.
Caveat: only the effect of the first action is measured, as in the paper's patching. Pairs that the
model gets wrong are excluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from statetrace.interventions.spec import GridSpec
from statetrace.lenses.partial import part
from statetrace.lenses.parts.answers import check_fits, low_accuracy
from statetrace.lenses.parts.intervals import quantile
from statetrace.lenses.parts.lengths import usual_lengths
from statetrace.lenses.parts.pairs import Pairs, draw_pairs
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.lenses.specs import DepthSpec
from statetrace.models.stack import ModelStack
from statetrace.tasks.word_problem import WordProblem

Links = dict[str, tuple[str, np.ndarray, np.ndarray]]
"""See `Pairs.links`."""

Drawn = tuple[int, Links]
"""A length, and the links of its pairs."""

Votes = dict[str, np.ndarray]

FEWEST = 5
"""The fewest pairs of a split to report on."""


def depth(
    model: Any,
    task: WordProblem,
    spec: DepthSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """A row per length, layer and split: the vote for the clean run. `summary` has the layers
    needed: the sum of the votes over layers, so that half a vote counts as half a layer, their
    standard deviation over pairs, and the links with their splits."""
    return stacked_depth([model], task, spec, progress)[0]


def stacked_depth(
    models: Sequence[Any],
    task: WordProblem,
    spec: DepthSpec | None = None,
    progress: Progress = no_progress,
) -> list[LensResult]:
    """The results of several models of one shape."""
    spec, stack = spec or DepthSpec(), ModelStack(models)
    lengths = spec.lengths or usual_lengths(task.length)
    check_fits(stack.first, task, max(lengths))
    drawn: list[Drawn] = []
    votes: list[list[Votes]] = [[] for _ in models]
    for number, length in enumerate(lengths):
        pairs = draw_pairs(task, spec.pairs, length, 0, spec.seed)
        drawn.append((length, pairs.links(task.group.chain(), task.group.order)))
        logits = part(f"runs-{length}", partial(runs, stack, task, pairs))["logits"]
        for of_model, of_runs in zip(votes, logits, strict=True):
            of_model.append(_votes(of_runs, pairs, drawn[-1][1]))
        progress((number + 1) / len(lengths))
    return [_result(task, spec, drawn, of_model) for of_model in votes]


def _result(
    task: WordProblem, spec: DepthSpec, drawn: Sequence[Drawn], votes: Sequence[Votes]
) -> LensResult:
    """The result of one model."""
    rows: list[dict[str, Any]] = []
    needed: dict[str, list[float | None]] = {}
    deviations: dict[str, list[float | None]] = {}
    splits: dict[str, str] = {}
    correct: list[bool] = []
    for (length, links), patched in zip(drawn, votes, strict=True):
        valid = patched["valid"]
        correct += patched["correct"].tolist()
        members = {"all": ("state", np.ones(len(valid), dtype=bool))}
        members |= {split: (link, chosen) for link, (split, chosen, _) in links.items()}
        splits |= {link: split for link, (split, _, _) in links.items()}
        for split, (link, chosen) in members.items():
            shares = patched[link][:, chosen & valid]
            rows += _rows(shares, length, split)
            sums, enough = shares.sum(0), shares.shape[1] >= FEWEST
            needed.setdefault(split, []).append(round(float(sums.mean()), 3) if enough else None)
            deviation = round(float(sums.std(ddof=1)), 3) if enough else None
            deviations.setdefault(split, []).append(deviation)
    lengths = [length for length, _ in drawn]
    accuracy, consequence = float(np.mean(correct)), "; the depths are not meaningful"
    notes = low_accuracy(accuracy, task.group.order, "on these pairs", consequence)
    excluded = len(correct) - sum(correct)
    if excluded:
        notes.append(f"{excluded} of {len(correct)} pairs were excluded: an answer is wrong")
    return LensResult(
        lens="depth",
        spec=asdict(spec) | {"lengths": lengths},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        summary={
            "lengths": lengths,
            "layers_needed": needed,
            "deviation": deviations,
            "links": splits,
        },
        notes=tuple(notes),
    )


def runs(stack: ModelStack, task: WordProblem, pairs: Pairs) -> dict[str, np.ndarray]:
    """The logits of all elements [S, layers + 3, P, order]: with the last token reset at each
    layer, of the clean run, and of the corrupted run."""
    elements = torch.as_tensor(task.vocabulary.elements)

    def compute(model: Any) -> torch.Tensor:
        patched = pairs.patched(
            model,
            task,
            GridSpec("context", "substitution"),
            keep=lambda logits, _clean, _corrupted: logits[..., elements.to(logits.device)],
        )
        unpatched = torch.stack([patched.clean, patched.corrupted])[..., elements]
        return torch.cat([patched.grids[0].values[:, 0], unpatched])

    positions = 2 * len(pairs) * task.vocabulary.tokens(pairs.clean.shape[1])
    return {"logits": stack.each(compute, positions).double().numpy()}


def _votes(logits: np.ndarray, pairs: Pairs, links: Links) -> Votes:
    """For each link the votes for the clean run, 0 to 1, [layers + 1, P]; correct: pairs [P] with
    two correct answers; valid: those for which the clean run is not undecided itself."""
    answers = logits[-2:].argmax(-1)
    correct = (answers == [pairs.clean_state, pairs.corrupted_state]).all(0)
    votes: Votes = {"correct": correct, "valid": correct.copy()}
    for link, (_, chosen, classes) in links.items():
        ours, theirs = classes[pairs.clean_state], classes[pairs.corrupted_state]
        odds = _mass(logits, classes, ours) - _mass(logits, classes, theirs)  # [layers + 3, P]
        span = odds[-2] - odds[-1]
        if link == "state":  # it is compared for all pairs, the others for their own
            chosen = np.ones_like(chosen)
        votes["valid"] &= ~chosen | (span > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            votes[link] = np.clip((odds[:-2] - odds[-1]) / span, 0.0, 1.0)
    return votes


def _mass(logits: np.ndarray, classes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The log of the unnormalized probability of a class [rows, P]; wanted [P]."""
    inside = np.where(classes[None] == wanted[:, None], logits, -np.inf)
    most = inside.max(-1, keepdims=True)
    return np.log(np.exp(inside - most).sum(-1)) + most[..., 0]


def _rows(votes: np.ndarray, length: int, split: str) -> list[dict[str, Any]]:
    n = votes.shape[1]
    rows = []
    for layer, shares in enumerate(votes):
        statistics: dict[str, Any] = dict.fromkeys(("mean", "std", "low", "high"))
        if n >= FEWEST:
            mean, std = float(shares.mean()), float(shares.std(ddof=1))
            half = float(quantile() * std / np.sqrt(n))
            statistics = {"mean": mean, "std": std, "low": mean - half, "high": mean + half}
        rows.append({"length": length, "layer": layer, "split": split, **statistics, "n": n})
    return rows
