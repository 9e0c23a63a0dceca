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

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from statetrace.config.checks import at_least, check_seed
from statetrace.config.settings import setting
from statetrace.errors import StatetraceError
from statetrace.interventions import GridSpec
from statetrace.lenses.partial import part
from statetrace.lenses.parts.answers import check_fits, low_accuracy
from statetrace.lenses.parts.intervals import quantile
from statetrace.lenses.parts.lengths import usual_lengths
from statetrace.lenses.parts.pairs import Pairs, draw_pairs
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.tasks.word_problem import WordProblem

FEWEST = 5
"""The fewest pairs of a split to report on."""


@dataclass(frozen=True)
class DepthSpec:
    """Settings of the depth lens."""

    lengths: tuple[int, ...] | None = setting(
        None, "Lengths, 2 or more (default: 2, 3, 4, 6, 8, 12, 16, ... and the task's length)."
    )
    pairs: int = setting(200, "Pairs of a clean and a corrupted sequence per length.")
    seed: int = setting(0, "Random seed of the pairs.")

    def __post_init__(self) -> None:
        at_least("pairs", self.pairs, 1)
        check_seed("seed", self.seed)
        if self.lengths is not None and (not self.lengths or min(self.lengths) < 2):
            raise StatetraceError(
                f"lengths {self.lengths} are invalid; use one or more lengths of 2 or more"
            )


def depth(
    model: Any,
    task: WordProblem,
    spec: DepthSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """A row per length, layer and split: the vote for the clean run. `summary` has the layers
    needed: the sum of the votes over layers, so that half a vote counts as half a layer, their
    standard deviation over pairs, and the links with their splits."""
    spec = spec or DepthSpec()
    lengths = spec.lengths or usual_lengths(task.length)
    check_fits(model, task, max(lengths))
    chain = task.group.chain()
    rows: list[dict[str, Any]] = []
    needed: dict[str, list[float | None]] = {}
    deviations: dict[str, list[float | None]] = {}
    splits: dict[str, str] = {}
    correct: list[bool] = []
    for number, length in enumerate(lengths):
        pairs = draw_pairs(task, spec.pairs, length, 0, spec.seed)
        links = pairs.links(chain, task.group.order)
        patched = part(f"length-{length}", partial(_votes, model, task, pairs, links))
        valid = patched["valid"]
        correct += patched["correct"].tolist()
        members = {"all": ("state", np.ones(len(pairs), dtype=bool))}
        members |= {split: (link, chosen) for link, (split, chosen, _) in links.items()}
        splits |= {link: split for link, (split, _, _) in links.items()}
        for split, (link, chosen) in members.items():
            votes = patched[link][:, chosen & valid]
            rows += _rows(votes, length, split)
            sums, enough = votes.sum(0), votes.shape[1] >= FEWEST
            needed.setdefault(split, []).append(round(float(sums.mean()), 3) if enough else None)
            deviation = round(float(sums.std(ddof=1)), 3) if enough else None
            deviations.setdefault(split, []).append(deviation)
        progress((number + 1) / len(lengths))
    accuracy, consequence = float(np.mean(correct)), "; the depths are not meaningful"
    notes = low_accuracy(accuracy, task.group.order, "on these pairs", consequence)
    excluded = len(correct) - sum(correct)
    if excluded:
        notes.append(f"{excluded} of {len(correct)} pairs were excluded: an answer is wrong")
    return LensResult(
        lens="depth",
        spec=asdict(spec) | {"lengths": list(lengths)},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        summary={
            "lengths": list(lengths),
            "layers_needed": needed,
            "deviation": deviations,
            "links": splits,
        },
        notes=tuple(notes),
    )


def _votes(
    model: Any,
    task: WordProblem,
    pairs: Pairs,
    links: dict[str, tuple[str, np.ndarray, np.ndarray]],
) -> dict[str, np.ndarray]:
    """For each link the votes for the clean run, 0 to 1, [layers + 1, P]; correct: pairs [P] with
    two correct answers; valid: those for which the clean run is not undecided itself."""
    elements = torch.as_tensor(task.vocabulary.elements)
    patched = pairs.patched(
        model,
        task,
        GridSpec("context", "substitution"),
        keep=lambda logits, _clean, _corrupted: logits[..., elements.to(logits.device)],
    )
    clean, corrupted = patched.clean[:, elements], patched.corrupted[:, elements]
    correct = (clean.argmax(-1).numpy() == pairs.clean_state) & (
        corrupted.argmax(-1).numpy() == pairs.corrupted_state
    )
    runs = torch.cat([patched.grids[0].values[:, 0], clean[None], corrupted[None]]).double()
    votes: dict[str, np.ndarray] = {"correct": correct, "valid": correct.copy()}
    for link, (_, chosen, classes) in links.items():
        ours, theirs = classes[pairs.clean_state], classes[pairs.corrupted_state]
        odds = _mass(runs, classes, ours) - _mass(runs, classes, theirs)  # [layers + 3, P]
        span = odds[-2] - odds[-1]
        if link == "state":  # it is compared for all pairs, the others for their own
            chosen = np.ones_like(chosen)
        votes["valid"] &= ~chosen | (span > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            votes[link] = np.clip((odds[:-2] - odds[-1]) / span, 0.0, 1.0)
    return votes


def _mass(logits: torch.Tensor, classes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The log of the unnormalized probability of a class [rows, P]; wanted [P]."""
    outside = torch.from_numpy(classes[None] != wanted[:, None])
    return logits.masked_fill(outside, -torch.inf).logsumexp(-1).numpy()


def _rows(votes: np.ndarray, length: int, split: str) -> list[dict[str, Any]]:
    n = votes.shape[1]
    rows = []
    for layer, shares in enumerate(votes):
        statistics: dict[str, Any] = dict.fromkeys(("mean", "std", "low", "high"))
        if n >= FEWEST:
            mean, std = float(shares.mean()), float(shares.std(ddof=1))
            half = quantile() * std / np.sqrt(n)
            statistics = {"mean": mean, "std": std, "low": mean - half, "high": mean + half}
        rows.append({"length": length, "layer": layer, "split": split, **statistics, "n": n})
    return rows
