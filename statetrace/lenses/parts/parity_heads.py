"""Parity heads (section 4.5, appendix F, Table 2): heads that attend to odd actions.

Purpose: the share of lengths at which a head gives odd actions significantly more attention than
even ones. For any other quotient "odd" means outside its kernel: an action that changes the image
of the state. Parity is the special case with two images.

Cost: two passes over the attention maps, for all heads, examples and lengths of a layer at once.

Details of the definition:
- The attention of a prefix of length t is the last row of its map. By causality that is row t of
  the map of the whole sequence, so one forward pass serves all lengths.
- Significant means mean(odd) - 0.95 · CI > mean(even). CI is the half-width of the 95% confidence
  interval of the mean over odd actions (normal quantile times standard error, with n - 1 in the
  variance), and the factor 0.95 is applied literally: 1.86 standard errors. The paper's text ("a
  95% confidence interval") can also be read without the factor, 1.96 standard errors: `margin = 1`.
  Level and factor are parameters.
- A prefix without even actions or with fewer than two odd ones is not significant: it counts 0 and
  stays in the denominator.
- The sum over t = 5..L has L - 4 terms and is divided by L - 5, as in the paper, so the highest
  score is slightly above 100%: 101.3% at L = 80, 109.1% at L = 16. See `score_ceiling`.

Interpretation: a head with any preference among tokens slightly prefers odd ones by chance, and
with few different actions that is often significant: the best of the 16 heads of an untrained model
reaches 40 to 50% at length 16. `relabelings` labels other sets of actions as odd, which gives the
score by chance. (They overlap with the odd actions, so a true parity head scores higher on them.)

Caveat: tokens other than actions (a start marker) are in neither set; a head that mostly attends to
the marker and slightly to odd actions scores as high as one that attends to odd actions only.
"""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.lenses.parts.intervals import quantile
from statetrace.models.device import float64_device
from statetrace.tasks.word_problem import WordProblem


def head_scores(
    weights: Tensor,
    outside: Tensor,
    first: int = 5,
    margin: float = 0.95,
    confidence: float = 0.95,
) -> Tensor:
    """The parity-head scores of one layer, in percent: [B, H].

    Args:
        weights: attention [B, H, T, T] from action (row) to action (column); T is the paper's L.
        outside: [B, T], True where the action is odd (outside the kernel).
        first: the shortest prefix that counts.
        margin: factor of the half-width of the interval.
        confidence: level of the interval.
    """
    device = float64_device(weights.device)
    weights, outside = weights.to(device), outside.to(device)
    length = weights.shape[-1]
    # Sums of single-precision weights are exact in double precision, so that uniform attention ties
    # instead of winning by a rounding error.
    rows = weights[..., first - 1 :, :].float().double()  # [B, H, R, T]
    causal = torch.ones(length, length, dtype=torch.bool, device=weights.device).tril()[first - 1 :]
    odd = (outside[:, None, :] & causal).unsqueeze(1)  # [B, 1, R, T]
    even = (~outside[:, None, :] & causal).unsqueeze(1)
    n_odd, n_even = odd.sum(-1), even.sum(-1)  # [B, 1, R]
    mean_odd = (rows * odd).sum(-1) / n_odd  # [B, H, R], NaN if there is none
    mean_even = (rows * even).sum(-1) / n_even
    squares = ((rows - mean_odd.unsqueeze(-1)).square_() * odd).sum(-1)
    half_width = quantile(confidence) * (squares / (n_odd - 1) / n_odd).sqrt()
    significant = (mean_odd - margin * half_width > mean_even) & (n_odd >= 2) & (n_even >= 1)
    return 100.0 * significant.sum(-1).double() / (length - first)


def score_ceiling(first: int, last: int) -> float:
    """The score, in percent, of a head that is significant at every length."""
    return 100.0 * (last - first + 1) / (last - first)


def contrast(task: WordProblem, name: str = "parity") -> tuple[Quotient | None, str | None]:
    """The quotient whose kernel splits the actions, and a note if it is not the requested one.
    Without parity it is the first proper quotient; None if no quotient splits the actions."""
    group = task.group
    missing = "no parity-head scores"
    try:
        quotient, note = group.quotient(name), None
    except StatetraceError:
        if name != "parity":
            raise
        try:
            proper = group.quotients()
        except StatetraceError as too_many:
            return None, f"{missing}: {too_many}"
        if not proper:
            return None, f"{missing}: {group.name} has no parity and no other proper quotient"
        quotient = proper[0]
        note = (
            f"{group.name} has no parity, so heads are scored by its quotient {quotient.name}; "
            "'odd' means outside its kernel"
        )
    outside = outside_kernel(quotient)
    if task.actions is not None:
        outside = outside[list(task.actions)]
    if outside.all() or not outside.any():
        where = "outside" if outside.all() else "inside"
        return None, f"{missing}: every action is {where} the kernel of {quotient.name}"
    return quotient, note


def outside_kernel(quotient: Quotient) -> np.ndarray:
    """[order], True for the elements that are not mapped to the identity ("odd")."""
    outside = np.ones(len(quotient.map), dtype=bool)
    outside[list(quotient.kernel)] = False
    return outside


def relabelings(
    outside: np.ndarray, actions: tuple[int, ...] | None, number: int, rng: np.random.Generator
) -> np.ndarray:
    """Other labellings of as many actions as odd, [at most number, order], all different.

    Args:
        outside: [order], the true labels.
        actions: the elements that occur as actions; None for all.
    """
    chosen = np.arange(len(outside)) if actions is None else np.array(actions)
    number = min(number, comb(len(chosen), int(outside[chosen].sum())) - 1)
    labellings: dict[bytes, np.ndarray] = {}
    while len(labellings) < number:
        labels = outside.copy()
        labels[chosen] = outside[rng.permutation(chosen)]
        if not np.array_equal(labels, outside):
            labellings[labels.tobytes()] = labels
    return np.array(list(labellings.values()), dtype=bool).reshape(number, len(outside))
