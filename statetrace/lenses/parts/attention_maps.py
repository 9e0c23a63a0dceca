"""Reading the attention maps between the actions of many sequences, in pieces that fit.

Cost: one forward pass in which attention shows its weights. The maps of 100 sequences of length
100 in a model of 12 layers of 12 heads are 590 MB; no more than PIECE_BYTES is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.interventions.memory import in_pieces
from statetrace.lenses.parts.answers import device_of
from statetrace.lenses.parts.attention_spec import AttentionSpec
from statetrace.lenses.parts.attention_tree import TreeMeasures, attention_trees
from statetrace.lenses.parts.parity_heads import head_scores
from statetrace.lenses.result import Progress, no_progress
from statetrace.models import anatomy
from statetrace.models.device import free_bytes
from statetrace.tasks.word_problem import WordProblem

PIECE_BYTES = 2**28
"""Memory that one piece of the work may take."""


def maps_of(model: Any, task: WordProblem, actions: np.ndarray) -> Tensor:
    """The attention weights [L, B, H, T, T] from action (row) to action (column); what a start
    marker receives is what is missing from 1 in the sum of a row. Of an action of several tokens
    the last one looks, as it does for the answer, and all of them are looked at."""
    tokens = task.encode(torch.from_numpy(actions.astype(np.int64)).to(device_of(model)))
    weights = anatomy(model).attention_weights(tokens)
    stride, reads = task.vocabulary.stride, task.vocabulary.reads
    weights = weights[..., reads, task.vocabulary.offset :]
    return weights if stride == 1 else weights.unflatten(-1, (-1, stride)).sum(-1)


def maps_or_reason(model: Any, task: WordProblem, actions: np.ndarray) -> Tensor | str:
    """The maps, or a sentence that says why this model has none to show."""
    if anatomy(model).heads is None:
        return (
            f"{model.config.model_type!r} models have no attention in every block, so this lens "
            "has nothing to look at; the other lenses do not need it"
        )
    try:
        return maps_of(model, task, actions)
    except StatetraceError as error:
        return f"no attention maps: {error}"


def for_each_piece(
    model: Any,
    task: WordProblem,
    actions: np.ndarray,
    map_bytes: int,
    work: Callable[[int, Tensor], None],
    progress: Progress = no_progress,
) -> None:
    """Call work(start, maps) with the maps [L, B, H, T, T] of sequences start .. start + B until
    all are done; after running out of memory again, with fewer sequences.

    Args:
        actions: [n, T].
        map_bytes: what the maps of one sequence take.
    """
    n = len(actions)

    def piece(start: int, stop: int) -> None:
        work(start, maps_of(model, task, actions[start:stop]))
        progress(stop / n)

    # Twice: the layers' maps are stacked, and scores are computed in double precision by layer.
    in_pieces(n, fitting(2 * map_bytes, device_of(model)), piece)


def fitting(bytes_each: int, device: torch.device) -> int:
    """How many of something are done together."""
    return max(1, min(PIECE_BYTES, free_bytes(device) // 4) // max(1, bytes_each))


@dataclass(frozen=True)
class MapReading:
    """What the maps of n examples say.

    Attributes:
        scores: [labels, L, H, n] in percent, one for each way to call actions odd.
        attended: [L, n], the number of tokens that attention is spread over (see `attended`), in
            the mean of heads and targets.
        trees: None where no tree was asked for.
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
        example: the maps of one example, which tell the size of the others.
    """
    n = len(actions)
    n_trees = min(n, n if spec.tree_examples is None else spec.tree_examples)
    layers, _, heads, _, _ = example.shape
    scores = np.zeros((len(labels), layers, heads, n))
    spread = np.zeros((layers, n))
    odd = torch.from_numpy(labels[:, actions])  # [labels, n, T]
    trees: dict[int, TreeMeasures] = {}  # by the first example of a piece
    drawings: dict[str, np.ndarray] = {}

    def work(start: int, maps: Tensor) -> None:
        stop = start + maps.shape[1]
        for i, outside in enumerate(odd[:, start:stop].to(maps.device)):
            for layer, weights in enumerate(maps):
                found = head_scores(weights, outside, spec.first, spec.margin, spec.confidence)
                scores[i, layer, :, start:stop] = found.T.cpu().numpy()
        for layer, weights in enumerate(maps):
            spread[layer, start:stop] = attended(weights).mean((1, 2)).cpu().numpy()
        if start >= n_trees:
            return
        maps = maps[:, : n_trees - start]
        grown = attention_trees(maps, spec.weight, spec.top_target, spec.top_source)
        trees[start] = grown.measures()
        for i in range(start, min(stop, n_trees, spec.tree_saved)):
            drawings[f"tree{i}_edges"], drawings[f"tree{i}_weights"] = grown.drawing(i - start)
            drawings[f"tree{i}_actions"] = actions[i].astype(np.int32)

    whole_maps = 4 * example.numel() * task.vocabulary.stride**2
    for_each_piece(model, task, actions, whole_maps, work, progress)
    pieces = [trees[start] for start in sorted(trees)]
    joined = TreeMeasures.joined(pieces) if pieces else None
    return MapReading(scores, spread, joined, drawings)


def attended(weights: Tensor) -> Tensor:
    """Over how many tokens attention [..., T, T] is spread, by target [..., T]: exp of the entropy,
    which is k for even attention to k of them. What is missing from 1, as a start marker gets it,
    counts as one more token."""
    rest = (1 - weights.sum(-1, keepdim=True)).clamp(min=0)
    shares = torch.cat((weights, rest), dim=-1).double()
    return torch.special.entr(shares).sum(-1).exp()
