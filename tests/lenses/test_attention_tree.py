"""Attention trees: of the associative scan, of other known shapes, and against plain loops."""

from math import ceil, log2

import numpy as np
import pytest
import torch

from statetrace.lenses.parts.attention_tree import attention_trees
from tests.lenses.test_attention_scores import random_maps


def pointing(targets: list[list[int]]) -> torch.Tensor:
    """Maps [L, 1, 1, T, T]: targets[l][t] is the position that t attends to in layer l + 1."""
    return torch.eye(len(targets[0]))[torch.tensor(targets)][:, None, None]


def scan(length: int) -> list[list[int]]:
    """Layer l of the associative algorithm looks 2^(l-1) back, or at itself at the start."""
    layers = ceil(log2(length))
    return [[t - 2**k if t >= 2**k else t for t in range(length)] for k in range(layers)]


IDLE = {"none": [], "first": [0], "last": [-1], "between": [1]}


@pytest.mark.parametrize("idle", IDLE)
@pytest.mark.parametrize("length", [2, 3, 6, 8, 13, 16, 64])
def test_the_scan_is_a_perfect_tree(length, idle):
    layers = scan(length)
    for at in IDLE[idle]:
        layers.insert(at if at >= 0 else len(layers), list(range(length)))
    tree = attention_trees(pointing(layers)).measures()
    depth = ceil(log2(length))
    assert tree.depth.tolist() == [depth]
    assert tree.coverage.tolist() == [1.0]
    assert tree.distance.tolist() == [0.0]
    spans = tree.span[0]
    assert spans[~np.isnan(spans)].tolist() == [2**k for k in range(depth)]
    reached = [ceil(length / 2**k) for k in range(depth + 1)]
    assert sorted(set(tree.reached[0].tolist())) == sorted(set(reached))


def test_no_sharp_attention_is_no_tree():
    tree = attention_trees(random_maps(4, 2, 3, 8, sharpness=0.1)).measures()
    assert tree.depth.tolist() == [0, 0]
    assert tree.coverage.tolist() == [1 / 8, 1 / 8]
    assert tree.distance.tolist() == [1.0, 1.0]
    assert np.isnan(tree.span).all()


def test_everything_in_one_layer_is_far_from_a_tree():
    everywhere = torch.stack([pointing([[h] * 4])[0, 0, 0].tril() for h in range(4)])
    tree = attention_trees(everywhere[None, None], top_target=4).measures()
    assert tree.depth.tolist() == [1]
    assert tree.coverage.tolist() == [1.0]
    assert tree.distance.tolist() == pytest.approx([1 / 3])


@pytest.mark.parametrize(("length", "distance"), [(4, 0.138), (8, 0.236), (64, 0.414)])
def test_a_chain_lies_between(length, distance):
    """One position further in each layer: as deep as it is long."""
    layers = [[t - (t == layer) for t in range(length)] for layer in range(1, length)]
    tree = attention_trees(pointing(layers)).measures()
    assert tree.depth.tolist() == [length - 1]
    assert tree.reached[0].tolist() == list(range(length, 0, -1))
    assert tree.distance.tolist() == pytest.approx([distance], abs=0.001)


def test_the_residual_stream_carries_a_node_to_itself():
    """Layer 1 moves 0 to 1, layer 2 moves nothing, layer 3 moves 1 to the last; nothing leads
    from 2 to the last."""
    layers = [[0, 0, 2, 3], [0, 1, 0, 2], [0, 1, 2, 1]]
    maps = pointing(layers)
    maps[1] *= 0.9  # too little for an edge
    tree = attention_trees(maps)
    edges, weights = tree.drawing(0)
    # (layer, source, target); what a position gives itself is drawn as well
    assert edges.tolist() == [[1, 0, 1], [1, 3, 3], [3, 1, 3]]
    assert weights.tolist() == [1.0] * 3
    assert tree.measures().reached.tolist() == [[3, 2, 2, 1]]
    assert tree.measures().depth.tolist() == [2]


def brute_force(
    maps: np.ndarray, weight: float, top_target: int, top_source: int
) -> tuple[set[tuple[int, int, int]], list[set[int]]]:
    """One example, maps [L, H, T, T], by the words of appendix F."""
    layers, _, length, _ = maps.shape
    alpha = maps.max(1)
    reached = [{length - 1}]
    kept = set()
    for layer in reversed(range(layers)):
        below = set(reached[0])
        for t2 in reached[0]:
            for t1 in range(length):
                value = alpha[layer, t2, t1]
                given = sorted((alpha[layer, t2, i] for i in range(length)), reverse=True)
                received = sorted((alpha[layer, j, t1] for j in range(length)), reverse=True)
                if (
                    value > weight
                    and value in given[:top_target]
                    and value in received[:top_source]
                ):
                    kept.add((layer + 1, t1, t2))
                    below.add(t1)
        reached.insert(0, below)
    return kept, reached


@pytest.mark.parametrize(
    ("weight", "top_target", "top_source"),
    [(0.95, 3, 10), (0.3, 3, 10), (0.3, 1, 10), (0.3, 3, 1), (0.0, 2, 2), (0.0, 99, 99)],
)
def test_edges_are_those_of_the_three_conditions(weight, top_target, top_source):
    maps = random_maps(3, 4, 2, 9, sharpness=4.0)  # [L, B, H, T, T]
    tree = attention_trees(maps, weight, top_target, top_source)
    measures = tree.measures()
    for b in range(4):
        kept, reached = brute_force(maps[:, b].numpy(), weight, top_target, top_source)
        edges, weights = tree.drawing(b)
        assert {tuple(edge) for edge in edges.tolist()} == kept
        assert weights.tolist() == [
            maps[layer - 1, b, :, t2, t1].max().item() for layer, t1, t2 in edges
        ]
        assert measures.reached[b].tolist() == [len(positions) for positions in reached]
        moving = {layer for layer, t1, t2 in kept if t1 != t2}
        assert measures.depth[b] == len(moving)
        for layer in moving:
            spans = [t2 - t1 for at, t1, t2 in kept if at == layer and t1 != t2]
            assert measures.span[b, layer - 1] == pytest.approx(np.mean(spans))
            assert measures.edges[b, layer - 1] == len(spans)


@pytest.mark.parametrize(
    ("name", "loose", "tight"),
    [("weight", 0.1, 0.6), ("top_target", 9, 1), ("top_source", 9, 1)],
)
def test_each_threshold_prunes(name, loose, tight):
    maps = random_maps(3, 4, 2, 9, sharpness=2.0)
    settings = {"weight": 0.1, "top_target": 9, "top_source": 9}
    before = attention_trees(maps, **settings | {name: loose}).edges.sum()
    after = attention_trees(maps, **settings | {name: tight}).edges.sum()
    assert 0 < after < before
