"""How many layers an answer needs, by length: the question that tells the algorithms apart.

For sequences of n actions that differ in the first one, let the last token start again from the
corrupted run at some layer while all others stay as in the clean run. As long as that brings the
clean answer back, the answer was still being put together; from the layer on where it does not, it
is settled in the last token. Counting settles every length at the same layer, association needs a
layer more each time the length doubles, one-by-one composition a layer for each action. The paper's
heat maps show this for one length; here is one column of them for many.

Cost: (lengths) x (layers) forward passes over `pairs` pairs, most of them short.
Caveat: "settled" is about the first action alone, as in the paper's patching.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from statetrace.config.checks import at_least, check_seed
from statetrace.errors import StatetraceError
from statetrace.interventions import GridSpec
from statetrace.lenses.parts.answers import check_fits, unlearned
from statetrace.lenses.parts.intervals import quantile
from statetrace.lenses.parts.lengths import usual_lengths
from statetrace.lenses.parts.pairs import Pairs, draw_pairs
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.tasks.word_problem import WordProblem

FEWEST = 5
"""Pairs below which nothing is said about a split of them."""


@dataclass(frozen=True)
class DepthSpec:
    """Which lengths, on how many pairs."""

    lengths: tuple[int, ...] | None = None
    """Lengths tried, from 2 on; by default 2, 3, 4, 6, 8, 12, 16, ... and the task's own."""
    pairs: int = 200
    """Pairs of a clean and a corrupted sequence per length."""
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("pairs", self.pairs, 1)
        check_seed("seed", self.seed)
        if self.lengths is not None and (not self.lengths or min(self.lengths) < 2):
            raise StatetraceError(
                f"lengths {self.lengths} will not do: give at least one, and each at least 2"
            )


def depth(
    model: Any,
    task: WordProblem,
    spec: DepthSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """A row per length, layer and split: the share of the clean answer's probability that is
    brought back. `summary` has the layers needed: the sum of these shares over layers, so that half
    a share counts as half a layer."""
    spec = spec or DepthSpec()
    lengths = spec.lengths or usual_lengths(task.length)
    check_fits(model, task, max(lengths))
    quotients = task.quotients()[:1]
    rows: list[dict[str, Any]] = []
    left_out = 0
    right: list[bool] = []
    for number, length in enumerate(lengths):
        pairs = draw_pairs(task, spec.pairs, length, 0, spec.seed)
        back, kept, said = _brought_back(model, task, pairs)  # [rows, P], [P], [P]
        left_out += int((~kept).sum())
        right += (said == pairs.clean_state).tolist()
        for split, chosen in pairs.splits(quotients).items():
            rows += _rows(back[:, chosen & kept], length, split)
        progress((number + 1) / len(lengths))
    notes: list[str] = []
    trouble = unlearned(float(np.mean(right)), task.group.order, "to these pairs")
    if trouble:
        notes.append(f"{trouble}; there is no answer whose depth could be measured")
    if left_out:
        notes.append(
            f"{left_out} of {spec.pairs * len(lengths)} pairs were left out: the model gives both "
            "of their sequences the same answer"
        )
    return LensResult(
        lens="depth",
        spec=asdict(spec) | {"lengths": list(lengths)},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        summary={"lengths": list(lengths), "layers_needed": _layers_needed(rows, lengths)},
        notes=tuple(notes),
    )


def _brought_back(
    model: Any, task: WordProblem, pairs: Pairs
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability of the clean answer with the context patched, as a share of the clean run's,
    [layers + 1, P]; which pairs have two answers [P]; and the clean answers [P]."""
    at = torch.as_tensor(task.vocabulary.elements)
    found = pairs.patched(
        model,
        task,
        GridSpec("context", "substitution"),
        keep=lambda logits, _clean, _corrupted: logits[..., at.to(logits.device)],
    )
    said, said_else = found.clean[:, at].argmax(-1), found.corrupted[:, at].argmax(-1)
    log_p = found.grids[0].values[:, 0].double().log_softmax(-1)  # [rows, P, order]
    each = torch.arange(len(said))
    clean_p = found.clean[:, at].double().softmax(-1)[each, said]
    share = log_p[:, each, said].exp() / clean_p
    return share.clamp(0, 1).numpy(), (said != said_else).numpy(), said.numpy()


def _rows(back: np.ndarray, length: int, split: str) -> list[dict[str, Any]]:
    n = back.shape[1]
    rows = []
    for layer, shares in enumerate(back):
        told: dict[str, Any] = dict.fromkeys(("mean", "std", "low", "high"))
        if n >= FEWEST:
            mean, std = float(shares.mean()), float(shares.std(ddof=1))
            half = quantile() * std / np.sqrt(n)
            told = {"mean": mean, "std": std, "low": mean - half, "high": mean + half}
        rows.append({"length": length, "layer": layer, "split": split, **told, "n": n})
    return rows


def _layers_needed(
    rows: list[dict[str, Any]], lengths: tuple[int, ...]
) -> dict[str, list[float | None]]:
    """split -> for each length the sum over layers; None where there were too few pairs."""
    found: dict[str, list[float | None]] = {}
    for split in dict.fromkeys(row["split"] for row in rows):
        sums = []
        for length in lengths:
            shares = [r["mean"] for r in rows if r["split"] == split and r["length"] == length]
            sums.append(None if None in shares else round(sum(shares), 3))
        found[split] = sums
    return found
