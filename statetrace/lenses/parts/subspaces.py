"""Subspaces of the residual stream that carry a quotient, as orthonormal columns [D, k]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from statetrace.interventions.exchange import Exchange


def means_basis(points: Tensor, states: Tensor, image: Tensor) -> Tensor:
    """The span of the differences of class means [D, classes - 1], for points [n, T, D] of states
    [n, T] with classes image [order]. Points are centered at their position, and each state of a
    class counts equally: the chance numbers of sequences per state would add noise."""
    centered = (points.double() - points.double().mean(0)).flatten(0, 1)
    of_state = states.flatten()[:, None] == torch.arange(len(image), device=states.device)
    counts = of_state.sum(0)  # [order]
    state_means = (of_state.double().mT @ centered) / counts[:, None]
    visited = counts > 0
    means = torch.stack(
        [state_means[visited & (image == c)].mean(0) for c in range(int(image.max()) + 1)]
    )
    basis = torch.linalg.svd(means - means.mean(0), full_matrices=False)[2][: len(means) - 1]
    return basis.mT.float()


def random_basis(width: int, dimension: int, seed: Sequence[int], device: torch.device) -> Tensor:
    """A uniformly random subspace; the same on every device."""
    columns = np.random.default_rng(list(seed)).standard_normal((width, dimension))
    return _orthonormal(torch.from_numpy(columns).float()).to(device)


def learned_basis(
    examples: Sequence[tuple[Exchange, Tensor]],
    layer: int,
    start: Tensor,
    steps: int,
    rate: float,
    read: Callable[[Tensor], Tensor],
) -> Tensor:
    """Distributed alignment search from `start` [D, k]: Adam on the cross entropy between the
    answers after the exchange and their targets, one batch of examples per step. Targets are [S, P]
    for S sections, of which the one that fits the batch best counts. `read` maps logits [P, V] to
    those of the elements."""
    free = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=rate)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for step in range(steps):
        exchange, targets = examples[step % len(examples)]
        with torch.enable_grad():
            logits = read(exchange.logits(layer, _orthonormal(free)))
            log_p = logits.float().log_softmax(-1).gather(1, targets.T)  # [P, S]
            (free.grad,) = torch.autograd.grad(-log_p.mean(0).max(), [free])
        optimizer.step()
        decay.step()
    return _orthonormal(free.detach())


def _orthonormal(columns: Tensor) -> Tensor:
    return torch.linalg.qr(columns)[0]
