"""The number of layers that an answer needs, by length.

In pairs of sequences of n actions that differ in the first one, the last token is reset at some
layer to the corrupted run while all other tokens stay as in the clean run. As long as the clean
answer is restored, it is not yet decided at that layer; from the first layer where it is not, the
last token holds it. The parallel algorithm decides every length at the same layer, the associative
one needs another layer each time the length doubles, the sequential one a layer per action. The
paper's heat maps show this for one length; this lens measures one of their columns for many
lengths.

Cost: (lengths) x (layers) forward passes over `pairs` pairs, most of them short.
Caveat: only the effect of the first action is measured, as in the paper's patching.
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
    """A row per length, layer and split: the restored share of the probability of the clean answer.
    `summary` has the layers needed: the sum of these shares over layers, so that half a share
    counts as half a layer."""
    spec = spec or DepthSpec()
    lengths = spec.lengths or usual_lengths(task.length)
    check_fits(model, task, max(lengths))
    quotients = task.quotients()[:1]
    rows: list[dict[str, Any]] = []
    excluded = 0
    correct: list[bool] = []
    for number, length in enumerate(lengths):
        pairs = draw_pairs(task, spec.pairs, length, 0, spec.seed)
        patched = part(f"length-{length}", partial(_restored, model, task, pairs))
        restored, valid, answers = (patched[name] for name in ("restored", "valid", "answers"))
        excluded += int((~valid).sum())
        correct += (answers == pairs.clean_state).tolist()
        for split, members in pairs.splits(quotients).items():
            rows += _rows(restored[:, members & valid], length, split)
        progress((number + 1) / len(lengths))
    notes: list[str] = []
    problem = low_accuracy(float(np.mean(correct)), task.group.order, "on these pairs")
    if problem:
        notes.append(f"{problem}; the depths are not meaningful")
    if excluded:
        notes.append(
            f"{excluded} of {spec.pairs * len(lengths)} pairs were excluded: the model gives both "
            "sequences the same answer"
        )
    return LensResult(
        lens="depth",
        spec=asdict(spec) | {"lengths": list(lengths)},
        columns={name: [row[name] for row in rows] for name in rows[0]},
        summary={"lengths": list(lengths), "layers_needed": _layers_needed(rows, lengths)},
        notes=tuple(notes),
    )


def _restored(model: Any, task: WordProblem, pairs: Pairs) -> dict[str, np.ndarray]:
    """restored: probability of the clean answer with the context patched, relative to the clean
    run, [layers + 1, P]; valid: which pairs have two different answers [P]; the clean answers [P].
    """
    elements = torch.as_tensor(task.vocabulary.elements)
    patched = pairs.patched(
        model,
        task,
        GridSpec("context", "substitution"),
        keep=lambda logits, _clean, _corrupted: logits[..., elements.to(logits.device)],
    )
    clean, corrupted = patched.clean[:, elements], patched.corrupted[:, elements]
    answers = clean.argmax(-1)
    log_p = patched.grids[0].values[:, 0].double().log_softmax(-1)  # [rows, P, order]
    pair = torch.arange(len(answers))
    clean_p = clean.double().softmax(-1)[pair, answers]
    share = log_p[:, pair, answers].exp() / clean_p
    valid = answers != corrupted.argmax(-1)
    tensors = {"restored": share.clamp(0, 1), "valid": valid, "answers": answers}
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _rows(restored: np.ndarray, length: int, split: str) -> list[dict[str, Any]]:
    n = restored.shape[1]
    rows = []
    for layer, shares in enumerate(restored):
        statistics: dict[str, Any] = dict.fromkeys(("mean", "std", "low", "high"))
        if n >= FEWEST:
            mean, std = float(shares.mean()), float(shares.std(ddof=1))
            half = quantile() * std / np.sqrt(n)
            statistics = {"mean": mean, "std": std, "low": mean - half, "high": mean + half}
        rows.append({"length": length, "layer": layer, "split": split, **statistics, "n": n})
    return rows


def _layers_needed(
    rows: list[dict[str, Any]], lengths: tuple[int, ...]
) -> dict[str, list[float | None]]:
    """split -> for each length the sum over layers; None if there are too few pairs."""
    needed: dict[str, list[float | None]] = {}
    for split in dict.fromkeys(row["split"] for row in rows):
        sums = []
        for length in lengths:
            shares = [r["mean"] for r in rows if r["split"] == split and r["length"] == length]
            sums.append(None if None in shares else round(sum(shares), 3))
        needed[split] = sums
    return needed
