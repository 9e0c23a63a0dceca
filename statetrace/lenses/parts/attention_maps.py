"""Attention maps between the actions of many sequences, in pieces that fit into memory.

Cost: one forward pass that returns attention weights. The maps of 100 sequences of length 100 in a
model of 12 layers of 12 heads take 590 MB; at most PIECE_BYTES are held at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.attention_tree import TreeMeasures, attention_trees
from statetrace.lenses.parts.parity_heads import head_scores
from statetrace.lenses.result import Progress, no_progress
from statetrace.lenses.specs import AttentionSpec
from statetrace.models import anatomy
from statetrace.models.device import float64_device, free_bytes
from statetrace.models.memory import in_pieces
from statetrace.tasks.word_problem import WordProblem

PIECE_BYTES = 2**28
"""Maximum memory of one piece."""


def maps_of(model: Any, task: WordProblem, actions: np.ndarray) -> Tensor:
    """The attention weights [L, B, H, T, T] from action (row) to action (column). A row sums to 1
    minus the attention to the start marker. Of an action of several tokens the last one is the
    query, as for the answer, and all of them are keys."""
    weights = anatomy(model).attention_weights(task.encode(actions, device_of(model)))
    stride, reads = task.vocabulary.stride, task.vocabulary.reads
    weights = weights[..., reads, task.vocabulary.offset :]
    return weights if stride == 1 else weights.unflatten(-1, (-1, stride)).sum(-1)


def maps_or_reason(model: Any, task: WordProblem, actions: np.ndarray) -> Tensor | str:
    """The maps, or a sentence on why this model has none."""
    if anatomy(model).heads is None:
        return (
            f"{model.config.model_type!r} models do not have attention in every block, so there is "
            "nothing to measure; the other lenses do not need attention"
        )
    try:
        return maps_of(model, task, actions)
    except StatetraceError as error:
        return f"no attention maps: {error}"


def fitting(bytes_each: int, device: torch.device) -> int:
    """The number of items per piece."""
    return max(1, min(PIECE_BYTES, free_bytes(device) // 4) // max(1, bytes_each))


@dataclass(frozen=True)
class MapReading:
    """Measurements on the maps of n examples.

    Attributes:
        scores: [labels, L, H, n] in percent, one for each labelling of actions as odd.
        attended: [L, n], the effective number of attended tokens (see `attended`), averaged over
            heads and queries.
        trees: None if no trees were requested.
        drawings: the first trees, as arrays tree0_edges [n_edges, (layer, source, target)],
            tree0_weights [n_edges] and tree0_actions [T], and so on.
    """

    scores: np.ndarray
    attended: np.ndarray
    trees: TreeMeasures | None
    drawings: dict[str, np.ndarray]


def read_maps(
    model: Any,
    task: WordProblem,
    spec: AttentionSpec,
    actions: np.ndarray,
    labels: np.ndarray,
    example: Tensor,
    progress: Progress = no_progress,
) -> MapReading:
    """Scores and trees of every example.

    Args:
        actions: [n, T].
        labels: [labels, order], True for the elements that count as odd.
        example: the maps of one example, for the size of the others.
    """
    n = len(actions)
    n_trees = min(n, n if spec.tree_examples is None else spec.tree_examples)
    layers, _, n_heads, _, _ = example.shape
    scores = np.zeros((len(labels), layers, n_heads, n))
    tokens = np.zeros((layers, n))
    odd = torch.from_numpy(labels[:, actions])  # [labels, n, T]
    trees: dict[int, TreeMeasures] = {}  # by the first example of a piece
    drawings: dict[str, np.ndarray] = {}

    def work(start: int, stop: int) -> None:
        maps = maps_of(model, task, actions[start:stop])
        for i, outside in enumerate(odd[:, start:stop].to(maps.device)):
            for layer, weights in enumerate(maps):
                heads = head_scores(weights, outside, spec.first, spec.margin, spec.confidence)
                scores[i, layer, :, start:stop] = heads.T.cpu().numpy()
        for layer, weights in enumerate(maps):
            tokens[layer, start:stop] = attended(weights).mean((1, 2)).cpu().numpy()
        if start < n_trees:
            maps = maps[:, : n_trees - start]
            grown = attention_trees(maps, spec.weight, spec.top_target, spec.top_source)
            trees[start] = grown.measures()
            for i in range(start, min(stop, n_trees, spec.tree_saved)):
                drawings[f"tree{i}_edges"], drawings[f"tree{i}_weights"] = grown.drawing(i - start)
                drawings[f"tree{i}_actions"] = actions[i].astype(np.int32)
        progress(stop / n)

    # Twice: the maps of all layers are stacked, and scores use double precision.
    map_bytes = 2 * 4 * example.numel() * task.vocabulary.stride**2
    in_pieces(n, fitting(map_bytes, device_of(model)), work)
    pieces = [trees[start] for start in sorted(trees)]
    joined = TreeMeasures.joined(pieces) if pieces else None
    return MapReading(scores, tokens, joined, drawings)


def attended(weights: Tensor) -> Tensor:
    """The effective number of attended tokens by query [..., T]: the exponential of the entropy of
    attention [..., T, T], which is k for uniform attention to k tokens. What a row lacks to 1 (the
    start marker) counts as one more token."""
    weights = weights.to(float64_device(weights.device))
    rest = (1 - weights.sum(-1, keepdim=True)).clamp(min=0)
    shares = torch.cat((weights, rest), dim=-1).double()
    return torch.special.entr(shares).sum(-1).exp()
