"""The effect of patches on the answers to pairs of sequences: log-probabilities and NLD.

The two answers of a pair are the most likely elements of its clean and its corrupted run, ŷ and ŷ'.
Probabilities are over the whole vocabulary. LD = log p(ŷ) - log p(ŷ').
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.interventions.grid import Grid, Keep, PatchGrids
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.partial import part
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.pairs import Pairs
from statetrace.lenses.result import Progress, no_progress, part_of
from statetrace.models import anatomy
from statetrace.tasks.word_problem import WordProblem


@dataclass(frozen=True)
class PatchedAnswers:
    """P pairs under some grids of patches.

    Attributes:
        answers: ŷ and ŷ' [2, P], elements.
        ld: of the clean and of the corrupted run [2, P].
        grids: their values [R, C, P, K] are log p(ŷ), log p(ŷ') and, where requested, the element
            that the patched run answers, or the logits of all elements.
    """

    answers: np.ndarray
    ld: np.ndarray
    grids: tuple[Grid, ...]

    @property
    def comparable(self) -> np.ndarray:
        """Pairs [P] for which NLD is defined: two different answers, and no tie for the clean one,
        which would make the denominator of the deletion 0."""
        return (self.answers[0] != self.answers[1]) & (self.ld[0] > 0)

    def nld(self, grid: Grid) -> np.ndarray:
        """[R, C, P]; NaN for pairs that are not comparable."""
        log_p = grid.values.double().numpy()
        clean, corrupted = np.where(self.comparable, self.ld, np.nan)
        return nld(grid.spec.what, log_p[..., 0] - log_p[..., 1], clean, corrupted)


def patched_answers(
    model: Any,
    task: WordProblem,
    pairs: Pairs,
    grids: Sequence[GridSpec],
    by: str = "action",
    progress: Progress = no_progress,
    elements: bool = False,
    logits: bool = False,
) -> PatchedAnswers:
    """Patch every pair in every cell of the grids; with `elements`, keep the answer of each cell,
    with `logits` those of all elements."""
    ids = torch.as_tensor(task.vocabulary.elements, device=device_of(model))
    keep = partial(_keep, ids, elements, logits)
    grids_done: list[Grid] = []
    for number, grid in enumerate(grids):
        share = part_of(progress, number / len(grids), (number + 1) / len(grids))
        patched = _patched(model, task, pairs, grid, keep, by, share)
        grids_done += patched.grids
    unpatched = torch.stack((patched.clean, patched.corrupted))  # [2, P, V]
    log_p = _keep(ids.cpu(), False, False, unpatched, patched.clean, patched.corrupted).double()
    answers = unpatched[:, :, ids.cpu()].argmax(-1)
    ld = log_p[..., 0] - log_p[..., 1]
    return PatchedAnswers(answers.numpy(), ld.numpy(), tuple(grids_done))


def _patched(
    model: Any,
    task: WordProblem,
    pairs: Pairs,
    grid: GridSpec,
    keep: Keep,
    by: str,
    progress: Progress,
) -> PatchGrids:
    """One grid; a part of a lens that is kept."""

    def compute() -> dict[str, np.ndarray]:
        patched = pairs.patched(model, task, grid, keep, by, progress)
        tensors = {"clean": patched.clean, "corrupted": patched.corrupted}
        tensors["values"] = patched.grids[0].values
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    kept = {n: torch.from_numpy(a) for n, a in part(f"{grid.name}-by-{by}", compute).items()}
    progress(1.0)
    tokens, stride = task.vocabulary.tokens(pairs.clean.shape[1]), task.vocabulary.stride
    windows = grid.windows(tokens, task.vocabulary.offset, stride if by == "action" else 1)
    whole = Grid(grid, grid.sites(anatomy(model)), windows, kept["values"])
    return PatchGrids((whole,), kept["clean"], kept["corrupted"])


def nld(what: str, patched: np.ndarray, clean: np.ndarray, corrupted: np.ndarray) -> np.ndarray:
    """The paper's two normalized logit differences.

    patched [..., P] is LD with the patch, clean and corrupted [P] are LD of the unpatched inputs.
    """
    if what == "substitution":
        return (patched - corrupted) / (clean - corrupted)
    return (clean - patched) / clean


def _keep(
    ids: Tensor, elements: bool, all_logits: bool, logits: Tensor, clean: Tensor, corrupted: Tensor
) -> Tensor:
    """Reduce logits [cells, p, V]: see `PatchedAnswers.grids`."""
    answers = torch.stack(
        [ids[run[:, ids].argmax(-1)] for run in (clean, corrupted)], dim=-1
    )  # token ids [p, 2]
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    kept = log_p.gather(-1, answers.expand(*logits.shape[:-1], 2))
    if elements:
        kept = torch.cat((kept, logits[..., ids].argmax(-1, keepdim=True).to(kept.dtype)), dim=-1)
    return torch.cat((kept, logits[..., ids].to(kept.dtype)), dim=-1) if all_logits else kept
