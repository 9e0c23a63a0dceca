"""Many logistic regressions at once: the solver of the probes.

Purpose: minimise 0.5 ||W||² + C · (sum of log losses) for every problem, without a penalty on the
intercept: the objective of scikit-learn's LogisticRegression(C=...). For two classes scikit-learn
has one weight vector w. (Here there are as many columns as classes, so w = W1 - W0; doubling the
penalty of such a target makes 0.5 · 2 · (|w/2|² + |w/2|²) equal to 0.5 |w|².)

Each of P problems has its own features and G targets. One pass over the features serves the columns
of all targets, and each of the P·G fits has its own step length and stopping point. The method is
limited-memory BFGS, preconditioned by the Hessian at W = 0, where all probabilities are equal: the
first step is Newton's, so targets that cannot be decoded converge in two or three iterations. Along
a search direction the logits are linear in the step, so a line search needs no further pass.

Cost: one Gram matrix and Cholesky factor per problem, then two passes over the features per
iteration; finished problems are dropped once they are half of all.
Caveat: in float32 a tolerance below 1e-6 is not reached; see `converged`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

MEMORY = 12
"""Pairs of steps and gradient changes in the quasi-Newton update."""

GRAM_ROWS = 10_000
"""Rows that the preconditioner is estimated from if there are at least twice as many (and eight per
feature). It affects the speed of convergence, not the minimum."""

SEARCHES = 12
"""Maximum evaluations per line search; usually one suffices."""

DECREASE, OVERSHOOT = 0.5, 0.2
"""A step is accepted if the slope has shrunk to these shares, before or past the minimum."""


@dataclass(frozen=True)
class Columns:
    """The classes of all targets side by side: K columns, of which target g has `slices[g]`."""

    classes: tuple[int, ...]
    slices: tuple[slice, ...]
    owner: Tensor  # [K], the target each column belongs to
    member: Tensor  # [K, G], the same as zeros and ones (float64)

    @staticmethod
    def of(classes: tuple[int, ...], device: torch.device) -> Columns:
        ends = torch.tensor(classes).cumsum(0).tolist()
        slices = tuple(slice(end - k, end) for end, k in zip(ends, classes, strict=True))
        targets = torch.arange(len(classes), device=device)
        owner = targets.repeat_interleave(torch.tensor(classes, device=device))
        return Columns(classes, slices, owner, (owner[:, None] == targets).double())

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """[P, K, m] each -> one product per problem and target [P, G], float64."""
        return torch.linalg.vecdot(a, b).double() @ self.member

    def largest(self, a: Tensor) -> Tensor:
        """[P, K, m] -> the largest magnitude per problem and target [P, G]."""
        each = a.abs().amax(-1)
        return torch.stack([each[:, s].amax(-1) for s in self.slices], dim=-1)

    def spread(self, per_target: Tensor, like: Tensor) -> Tensor:
        """[P, G] -> a factor for each column [P, K, 1]."""
        return per_target[:, self.owner, None].to(like.dtype)

    def softmax(self, logits: Tensor) -> Tensor:
        """[P, K, n] -> probabilities within each target."""
        return torch.cat([softmax(logits[:, s]) for s in self.slices], dim=1)


def softmax(logits: Tensor) -> Tensor:
    """[..., K, n] -> probabilities of K classes. Rows are the last axis, so that every operation is
    contiguous in memory; torch.softmax is several times slower for few classes."""
    powers = (logits - logits.amax(-2, keepdim=True)).exp_()
    return powers.mul_(powers.sum(-2, keepdim=True).reciprocal_())


@dataclass
class _State:
    """The state of the fits. The first axis of every tensor is the unfinished problems."""

    index: Tensor  # [P], their numbers
    features: Tensor  # [P, n, D]
    answers: Tensor  # [P, K, n], 1 for the true class of each target, else 0
    penalty: Tensor  # [P, G], of the mean loss: (1 or 2) / (C n)
    inverse: Tensor  # [P, D + 1, D + 1], the preconditioner
    theta: Tensor  # [P, K, D + 1], weights and intercept
    logits: Tensor  # [P, K, n]
    gradient: Tensor  # [P, K, D + 1]
    scale: Tensor  # [P, G], of the preconditioner
    over: Tensor  # [P, G], whether the fit has ended
    pairs: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    """step and gradient change [P, K, D + 1], and 1 / their product [P, G] (0: unused)."""

    def keep(self, which: Tensor) -> _State:
        tensors = {k: v[which] for k, v in vars(self).items() if isinstance(v, Tensor)}
        pairs = [(s[which], y[which], rho[which]) for s, y, rho in self.pairs]
        return replace(self, **tensors, pairs=pairs)


@dataclass(frozen=True)
class Solution:
    """The solution of P problems with G targets each.

    Attributes:
        theta: [P, K, D + 1], the weights and the intercept of every class; the intercept is -inf
            for a class that does not occur.
        iterations, converged: [P, G].
    """

    theta: Tensor
    iterations: Tensor
    converged: Tensor


def solve(
    features: Tensor,
    labels: Tensor,
    classes: tuple[int, ...],
    C: float,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """features [P, n, D] in float32 or float64, labels [P, G, n] with labels[:, g] < classes[g].

    A fit ends when no entry of the gradient of its *mean* loss (with penalty) exceeds `tolerance`,
    as in scikit-learn.
    """
    columns = Columns.of(classes, features.device)
    state, absent = _start(features, labels, columns, C)
    state.gradient = _gradient(state, columns, columns.softmax(state.logits) - state.answers)
    state.over = columns.largest(state.gradient) <= tolerance
    theta = torch.zeros_like(state.theta)
    iterations = torch.zeros(state.over.shape, dtype=torch.long, device=features.device)
    converged = state.over.clone()
    for _ in range(max_iterations):
        open_ = ~state.over.all(-1)
        if not open_.any():
            break
        if 2 * int(open_.sum()) <= len(open_):
            theta[state.index] = state.theta
            state = state.keep(open_)
        iterations[state.index] += (~state.over).long()
        _step(state, columns)
        reached = columns.largest(state.gradient) <= tolerance
        converged[state.index] |= reached & ~state.over
        state.over |= reached
    theta[state.index] = state.theta
    theta[..., -1].masked_fill_(absent, -torch.inf)
    return Solution(theta, iterations, converged)


def _start(features: Tensor, labels: Tensor, columns: Columns, C: float) -> tuple[_State, Tensor]:
    """The initial state with zero weights, and the absent classes [P, K]: their logits stay -inf,
    so their gradients are exactly zero."""
    problems, n, width = features.shape
    first = torch.tensor([s.start for s in columns.slices], device=features.device)
    answers = features.new_zeros(problems, len(columns.owner), n)
    answers.scatter_(1, labels + first[:, None], 1.0)
    occurs = answers.amax(-1)
    count = occurs.double() @ columns.member  # [P, G]
    penalty = torch.where(count == 2, 2.0, 1.0).double() / (C * n)
    offset = features.new_zeros(occurs.shape).masked_fill_(occurs == 0, -torch.inf)
    theta = features.new_zeros(problems, len(columns.owner), width + 1)
    state = _State(
        index=torch.arange(problems, device=features.device),
        features=features,
        answers=answers,
        penalty=penalty,
        inverse=_preconditioner(features, (count * penalty).amax(-1)),
        theta=theta,
        logits=offset[:, :, None].repeat(1, 1, n),
        gradient=theta,
        scale=count,
        over=torch.zeros_like(count, dtype=torch.bool),
    )
    return state, occurs == 0


def _preconditioner(features: Tensor, ridge: Tensor) -> Tensor:
    """The inverse of (Gram matrix of features and a constant) / n + ridge, [P, D + 1, D + 1].

    With k equal probabilities the Hessian of the mean loss is Gram / (k n) + penalty (outside the
    null space of softmax), which is this matrix over k for ridge = k · penalty. The largest ridge
    of all targets is used for all; it only matters for directions of almost no variance.
    """
    n, width = features.shape[1:]
    rows = features[:, :: max(1, n // max(GRAM_ROWS, 8 * width))]
    gram = features.new_empty(len(features), width + 1, width + 1, dtype=torch.float64)
    for matrix, x in zip(gram, rows, strict=True):  # in double precision, one problem at a time
        matrix[:-1, :-1] = x.T.double() @ x.double() / len(x)
    gram[:, -1, :-1] = gram[:, :-1, -1] = rows.mean(1)
    gram[:, -1, -1] = 1.0
    diagonal = gram.diagonal(dim1=1, dim2=2)
    # The rounding of the features is relative to the largest eigenvalue, which the trace bounds.
    rounding = 4 * torch.finfo(features.dtype).eps * diagonal.sum(-1)
    diagonal += (ridge + rounding)[:, None]
    return torch.cholesky_inverse(torch.linalg.cholesky(gram)).to(features.dtype)


def _gradient(state: _State, columns: Columns, residual: Tensor) -> Tensor:
    """Gradient of the mean loss with penalty [P, K, D + 1]; residual = probability - answer."""
    n = residual.shape[-1]
    by_feature = torch.bmm(residual, state.features)
    gradient = torch.cat([by_feature, residual.sum(-1, keepdim=True)], dim=-1) / n
    weights = state.theta[..., :-1]
    gradient[..., :-1] += columns.spread(state.penalty, weights) * weights
    return gradient


def _direction(state: _State, columns: Columns) -> Tensor:
    """The quasi-Newton direction [P, K, D + 1], by the two-loop recursion."""
    q, shares = -state.gradient, []
    for s, y, rho in reversed(state.pairs):
        share = rho * columns.dot(s, q)
        shares.append(share)
        q = q - columns.spread(share, q) * y
    q = torch.bmm(q, state.inverse) * columns.spread(state.scale, q)
    for (s, y, rho), share in zip(state.pairs, reversed(shares), strict=True):
        q = q + columns.spread(share - rho * columns.dot(y, q), q) * s
    return q


def _step(state: _State, columns: Columns) -> None:
    """One iteration of every unfinished fit, in place."""
    direction = _direction(state, columns)
    weights, intercept = direction[..., :-1], direction[..., -1]
    # [P, K, n]; this order of the product is the fastest, see benchmarks/probing.py
    change = torch.bmm(state.features, weights.transpose(1, 2)).transpose(1, 2).contiguous()
    change += intercept[..., None]
    length, residual = _search(state, columns, direction, change)
    factor = columns.spread(length, direction)
    step = factor * direction
    state.theta = state.theta + step
    state.logits.addcmul_(change, factor)
    gradient = _gradient(state, columns, residual)
    gradient_change = gradient - state.gradient
    state.gradient = gradient

    product = columns.dot(step, gradient_change)
    size = columns.dot(gradient_change, torch.bmm(gradient_change, state.inverse))
    useful = (product > 0) & ~state.over
    # A fit without progress drops its pairs; if it has none, its slope is only rounding error and
    # it ends.
    stuck = ~useful & ~state.over
    remembered = torch.zeros_like(stuck)
    for _, _, rho in state.pairs:
        remembered |= rho > 0
        rho.masked_fill_(stuck, 0.0)
    state.over = state.over | (stuck & ~remembered)
    state.pairs.append((step, gradient_change, torch.where(useful, 1 / product, 0.0)))
    del state.pairs[:-MEMORY]
    state.scale = torch.where(useful, product / size, state.scale)


def _search(
    state: _State, columns: Columns, direction: Tensor, change: Tensor
) -> tuple[Tensor, Tensor]:
    """Step lengths [P, G] along the direction (0 for finished fits), and the residual there.

    The loss along a line is convex, so its slope increases: search for its zero by secants inside
    the current bracket, or further out while there is none.
    """
    n = change.shape[-1]
    d, w = direction[..., :-1], state.theta[..., :-1]
    linear = state.penalty * columns.dot(w, d)
    square = state.penalty * columns.dot(d, d)
    start = columns.dot(state.gradient, direction)  # [P, G], the slope at 0
    t = torch.where(state.over | (start >= 0), 0.0, 1.0).double()
    settled = t == 0
    low, low_slope = torch.zeros_like(t), start
    high, high_slope = torch.full_like(t, torch.inf), torch.zeros_like(t)
    for attempt in range(SEARCHES):
        factor = columns.spread(t, change)
        residual = columns.softmax(torch.addcmul(state.logits, change, factor)) - state.answers
        slope = columns.dot(residual, change) / n + linear + t * square
        settled |= (slope >= DECREASE * start) & (slope <= -OVERSHOOT * start)
        if attempt == SEARCHES - 1 or settled.all():
            break
        # without a bracket: extrapolate the slope linearly to zero
        extrapolated = t - slope * (t - low) / (slope - low_slope).clamp_min(1e-300)
        further = extrapolated.clamp(2 * t, 10 * t)
        before = slope < 0
        low, low_slope = torch.where(before, t, low), torch.where(before, slope, low_slope)
        high, high_slope = torch.where(before, high, t), torch.where(before, high_slope, slope)
        width = high - low
        secant = low + width * low_slope / (low_slope - high_slope)
        inside = secant.clamp(low + 0.1 * width, high - 0.1 * width)
        t = torch.where(settled, t, torch.where(high.isinf(), further, inside))
    return t, residual
