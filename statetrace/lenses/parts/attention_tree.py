"""The attention tree (appendix F, Figure 16): the edges along which actions reach the last answer.

Nodes are (t, l): action t after layer l, where l = 0 is the embedding. There is an edge from
(t1, l-1) to (t2, l) if the largest attention weight of any head of layer l from t2 to t1

    is above `weight` (0.95), is among the `top_target` (3) largest from t2, and among the
    `top_source` (10) largest to t1.

Only edges that reach the last action at the last layer are kept. Details:
- Being among the top k means being at least as large as the k-th largest, so ties are included.
- The residual stream connects a node to itself: (t, l-1) always reaches (t, l), with or without an
  edge. An attention edge from a position to itself is kept for figures but moves nothing.
- A start marker is not an action: it is removed before ranking.

Distance from a perfect binary tree: go down from the last layer over the layers with an edge
between positions, and count the positions r_k that are reached after k of them, r_0 = 1. The scan
of section 3.3 reaches p_k = ceil(T / 2^(K-k)) in its K = ceil(log2 T) layers: 1, 2, 4, ..., T. The
distance is the sum of |log2 r_k - log2 p_k| over k = 1..K, divided by the sum of log2 p_k (r_k
stays constant if there are fewer layers). It is 0 for the scan, 1 if nothing reaches the last
action, (K-1)/(K+1) if all T = 2^K actions do so in a single layer, and 0.41 for a chain that
collects one more of 64 actions per layer. The position of idle layers does not matter.

Cost: a few passes over maps [L, B, T, T], negligible next to the forward pass.
Caveat: information that flows along many weak edges is not visible (a weight of 0.95 allows one
edge per head and query); an empty tree means that attention is not sharp, not that no information
flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import ceil, log2

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Trees:
    """The trees of B examples; positions count actions from 0.

    Attributes:
        edges: [L, B, T, T], (layer, example, target, source), True for the edges kept.
        weights: [L, B, T, T], the largest weight of any head.
        reached: [L + 1, B, T], whether a position after layer l = 0..L reaches the last answer.
    """

    edges: Tensor
    weights: Tensor
    reached: Tensor

    def drawing(self, example: int) -> tuple[np.ndarray, np.ndarray]:
        """One tree as [n_edges, (layer 1..L, source, target)] and the weights [n_edges]."""
        at = self.edges[:, example].nonzero()  # (layer, target, source), by layer
        weights = self.weights[:, example][tuple(at.T)]
        edges = torch.stack((at[:, 0] + 1, at[:, 2], at[:, 1]), dim=1)
        return edges.int().cpu().numpy(), weights.float().cpu().numpy()

    def measures(self) -> TreeMeasures:
        _, examples, length, _ = self.edges.shape
        position = torch.arange(length, device=self.edges.device)
        offset = position[:, None] - position[None, :]
        moves = self.edges & (offset != 0)  # [L, B, T, T]
        number = moves.sum((2, 3))  # [L, B]
        span = (moves * offset).sum((2, 3)) / number  # NaN without edges
        reached = self.reached.sum(2).T.cpu().numpy()  # [B, L + 1]
        moving = (number > 0).T.cpu().numpy()  # [B, L]
        return TreeMeasures(
            depth=moving.sum(1),
            coverage=reached[:, 0] / length,
            distance=np.array(
                [tree_distance(reached[b], moving[b], length) for b in range(examples)]
            ),
            edges=number.T.cpu().numpy(),
            span=span.T.cpu().double().numpy(),
            reached=reached,
        )


@dataclass(frozen=True)
class TreeMeasures:
    """Numbers per example.

    Attributes:
        depth: [B], layers with an edge between different positions.
        coverage: [B], share of the actions that reach the last answer.
        distance: [B], 0 for a perfect binary tree, 1 for none.
        edges: [B, L], edges between different positions in each layer.
        span: [B, L], their mean length t2 - t1, NaN if there are none.
        reached: [B, L + 1], positions after layer 0..L that reach the last answer.
    """

    depth: np.ndarray
    coverage: np.ndarray
    distance: np.ndarray
    edges: np.ndarray
    span: np.ndarray
    reached: np.ndarray

    @staticmethod
    def joined(parts: Sequence[TreeMeasures]) -> TreeMeasures:
        """The examples of all parts, in order."""
        names = [field.name for field in fields(TreeMeasures)]
        return TreeMeasures(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        )


def attention_trees(
    weights: Tensor, weight: float = 0.95, top_target: int = 3, top_source: int = 10
) -> Trees:
    """The trees of attention maps [L, B, H, T, T] from action (row) to action (column)."""
    strongest = weights.amax(2)  # [L, B, T, T]
    edges = (
        (strongest > weight)
        & (strongest >= _kth_largest(strongest, top_target, dim=-1))
        & (strongest >= _kth_largest(strongest, top_source, dim=-2))
    )
    reached = [torch.zeros_like(edges[0, :, 0])]  # [B, T], from the last layer down
    reached[0][:, -1] = True
    kept = []
    for layer in reversed(edges.unbind(0)):  # [B, T, T]
        below = layer & reached[-1].unsqueeze(-1)
        kept.append(below)
        reached.append(reached[-1] | below.any(1))
    return Trees(torch.stack(kept[::-1]), strongest, torch.stack(reached[::-1]))


def tree_distance(reached: np.ndarray, moving: np.ndarray, length: int) -> float:
    """The distance from a perfect binary tree over `length` actions (see above).

    Args:
        reached: [L + 1], positions that reach the answer after layer 0..L.
        moving: [L], whether layer 1..L has an edge between different positions.
    """
    if length < 2:
        return 0.0
    depth = ceil(log2(length))
    scan = [ceil(length / 2 ** (depth - k)) for k in range(1, depth + 1)]
    counts = [int(n) for n in reached[:-1][moving][::-1]][:depth] or [1]
    counts += [counts[-1]] * (depth - len(counts))
    return float(np.abs(np.log2(counts) - np.log2(scan)).sum() / np.log2(scan).sum())


def _kth_largest(values: Tensor, k: int, dim: int) -> Tensor:
    """The k-th largest along a dimension (the smallest if there are fewer), which is kept."""
    largest = values.topk(min(k, values.shape[dim]), dim=dim).values
    return largest.narrow(dim, largest.shape[dim] - 1, 1)
