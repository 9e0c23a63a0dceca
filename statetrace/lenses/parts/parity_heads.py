"""Parity heads (section 4.5, appendix F, Table 2): heads that look at odd actions.

Purpose: the share of lengths at which a head gives odd actions significantly more attention than
even ones. For any other quotient "odd" means outside its kernel: an action that changes the image
of the state. Parity is the special case with two images.

Cost: two passes over the attention maps, all heads, examples and lengths of a layer at once.

The definition, and how its loose ends are tied:
- The attention of a prefix of length t is the last row of its map, and by causality that is row t
  of the map of the whole sequence: one forward pass serves all lengths.
- Significant means mean(odd) - 0.95 · CI > mean(even). CI is taken as the half-width of the 95%
  confidence interval around the mean over odd actions (normal quantile times standard error, with
  n - 1 in the variance), and the factor 0.95 is applied literally: 1.86 standard errors in all.
  The paper's text ("a 95% confidence interval") can also be read without the factor, 1.96 standard
  errors: `margin = 1`. The level and the factor are parameters.
- A prefix without an even action, or with fewer than two odd ones (no spread to speak of), shows
  nothing significant: it counts 0 and stays in the denominator.
- The sum over t = 5..L has L - 4 terms and is divided by L - 5. So it is here, and the highest
  score is slightly above 100%: 101.3% at L = 80, but 109.1% at L = 16. See `score_ceiling`.

What a score means: any head that prefers some tokens to others prefers odd ones a little by
accident, and with few different actions that is often significant: the best of the 16 heads of an
untrained model reaches 40 to 50% at length 16. `relabelings` gives other sets of actions to call
odd, and with them the score that a head reaches by chance. (They overlap with the odd actions, so
that a true parity head scores more than by chance on them.)

Caveat: tokens that are no actions (a start marker) are in neither set; a head that rests on the
marker and spares crumbs for odd actions scores as high as one that attends to nothing else.
"""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.lenses.parts.intervals import quantile
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
        margin: what the interval's half-width is multiplied with.
        confidence: level of the interval.
    """
    length = weights.shape[-1]
    # Weights of single precision add up exactly in double precision, so that heads whose weights
    # are all equal tie instead of winning by a rounding error.
    rows = weights[..., first - 1 :, :].float().double()  # [B, H, R, T]
    seen = torch.ones(length, length, dtype=torch.bool, device=weights.device).tril()[first - 1 :]
    odd = (outside[:, None, :] & seen).unsqueeze(1)  # [B, 1, R, T]
    even = (~outside[:, None, :] & seen).unsqueeze(1)
    n_odd, n_even = odd.sum(-1), even.sum(-1)  # [B, 1, R]
    mean_odd = (rows * odd).sum(-1) / n_odd  # [B, H, R], NaN where there is none
    mean_even = (rows * even).sum(-1) / n_even
    squares = ((rows - mean_odd.unsqueeze(-1)).square_() * odd).sum(-1)
    half_width = quantile(confidence) * (squares / (n_odd - 1) / n_odd).sqrt()
    significant = (mean_odd - margin * half_width > mean_even) & (n_odd >= 2) & (n_even >= 1)
    return 100.0 * significant.sum(-1).double() / (length - first)


def score_ceiling(first: int, last: int) -> float:
    """The score, in percent, of a head that passes at every length."""
    return 100.0 * (last - first + 1) / (last - first)


def contrast(task: WordProblem, name: str = "parity") -> tuple[Quotient | None, str | None]:
    """The quotient whose kernel splits the actions, and a sentence where it is not the one that
    was asked for. Without parity it is the first proper quotient; None where nothing splits."""
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
            f"{group.name} has no parity: heads are scored by its quotient {quotient.name}, "
            "'odd' meaning outside the kernel"
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
    """Other ways to call as many actions odd, [at most number, order], all different.

    Args:
        outside: [order], the true way.
        actions: the elements that occur as actions; None for all.
    """
    chosen = np.arange(len(outside)) if actions is None else np.array(actions)
    number = min(number, comb(len(chosen), int(outside[chosen].sum())) - 1)
    found: dict[bytes, np.ndarray] = {}
    while len(found) < number:
        labels = outside.copy()
        labels[chosen] = outside[rng.permutation(chosen)]
        if not np.array_equal(labels, outside):
            found[labels.tobytes()] = labels
    return np.array(list(found.values()), dtype=bool).reshape(number, len(outside))
