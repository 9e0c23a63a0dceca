"""Numbers from attention of one model: how sparse it is by layer, where heads look, and how clean
the tree is (section 4.5, appendix F)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from reproduction.measured import Measure, Measured, of_correlation
from reproduction.measures.models import ranks
from reproduction.model_selection import of_best
from reproduction.results import Missing, Results, lens_file
from statetrace.lenses.parts.intervals import quantile

Array = np.ndarray
PARTS = ("first", "middle", "last")
SETTINGS, PROMPTS = {"weight": 0.95, "top_target": 3, "top_source": 10}, 3
"""The paper's, of Figure 16."""


@of_best
def thinning(model: str) -> Measure:
    """Rank correlation of a layer with the number of edges that its attention tree has there."""

    def measure(found: Results) -> Measured:
        file = lens_file(model, "attention", "json")
        edges = found.json(file)["summary"].get("tree_edges", [])
        if len(edges) < 3 or not any(edges):
            raise Missing(f"of '{model}' there is no attention tree")
        value = float(np.corrcoef(ranks(edges), np.arange(len(edges)))[0, 1])
        words = "rank correlation; edges by layer " + " ".join(f"{n:.1f}" for n in edges)
        return Measured(value, len(edges), "layers", *of_correlation(value, len(edges)),
                        words=words, sources=(file,))  # fmt: skip

    return measure


@of_best
def deeper_attention(model: str) -> Measure:
    """How many tokens attention is spread over in the deeper half of the layers, in units of the
    first half; heads and targets alike."""

    def measure(found: Results) -> Measured:
        file = lens_file(model, "attention", "json")
        about = found.json(file)
        spread = about["summary"].get("attended")
        if spread is None:
            raise Missing(f"how sparse the attention of '{model}' is was not kept")
        means, errors = np.array(spread["mean"]), np.array(spread["error"])
        half = len(means) // 2
        early, late = means[:half].mean(), means[half:].mean()
        off = [  # of half a model's mean, as if layers went together
            errors[:half].mean() / early, errors[half:].mean() / late
        ]  # fmt: skip
        value = float(late / early)
        listed = " ".join(f"{mean:.1f}" for mean in means)
        return Measured(value, about["spec"]["examples"], "sequences",
                        value * float(1 - np.hypot(*off)), value * float(1 + np.hypot(*off)),
                        words=f"tokens by layer {listed}", sources=(file,))  # fmt: skip

    return measure


@of_best
def local_head(model: str) -> Measure:
    """Of a parity head's attention to actions, the largest share in one third of the prefix, over
    targets in the last third of a sequence: for the one of the top heads that is most local. Even
    attention has a third."""

    def measure(found: Results) -> Measured:
        file = lens_file(model, "drawn", "json")
        drawn = found.json(file)
        if "maps" not in drawn:
            raise Missing(f"of '{model}' there are no maps of parity heads")
        heads = [thirds(np.array(weights)) for weights in drawn["maps"]]  # [targets, 3] each
        if len(heads[0]) < 2:
            return Measured(None, words="too short a sequence", sources=(file,))
        most = max(heads, key=lambda shares: float(shares.mean(0).max()))
        where = int(most.mean(0).argmax())
        value = float(most[:, where].mean())
        off = float(quantile() * most[:, where].std(ddof=1) / len(most) ** 0.5)
        said = ", ".join(
            f"{shares.mean(0).max():.0%} in the {PARTS[int(shares.mean(0).argmax())]} "
            f"(layer {layer}, head {head})"
            for shares, (layer, head) in zip(heads, drawn["heads"], strict=True)
        )
        return Measured(value, len(most), "targets", value - off, min(1.0, value + off), "share",
                        f"one sequence; by score: {said}", (file,))  # fmt: skip

    return measure


def thirds(weights: Array) -> Array:
    """By target [targets, 3], shares of the attention to actions that lie in the thirds of what
    there is up to it; targets in the last third of a sequence whose map is weights [T, T]."""
    length = len(weights)
    shares = []
    for t in range(2 * length // 3, length):
        here = weights[t, : t + 1]
        parts = [part.sum() for part in np.array_split(here, 3)]
        if here.sum() > 0:
            shares.append(np.array(parts) / here.sum())
    return np.array(shares).reshape(-1, 3)


@of_best
def unclean(model: str) -> Measure:
    """How many of two kinds of disorder one attention tree has: positions that get more than one
    edge in a layer, and edges that cross."""

    def measure(found: Results) -> Measured:
        file = lens_file(model, "drawn", "json")
        tree = found.json(file).get("tree")
        if not tree or not tree["edges"]:
            raise Missing(f"of '{model}' there is no attention tree")
        moves = [edge for edge in tree["edges"] if edge[1] != edge[2]]  # layer, source, target
        into = Counter((layer, target) for layer, _, target in moves)
        redundant = sum(count - 1 for count in into.values())
        crossing = sum(
            a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in combinations(moves, 2)
        )
        words = f"one sequence; {redundant} redundant edges, {crossing} pairs that cross"
        return Measured((redundant > 0) + (crossing > 0), len(moves), "edges", unit="kinds",
                        words=words, sources=(file,))  # fmt: skip

    return measure


@of_best
def tree_settings(model: str) -> Measure:
    """Of the paper's settings of attention trees, the share that ours have: an edge's least weight,
    to how many targets and from how many sources, and at least as many prompts."""

    def measure(found: Results) -> Measured:
        file = lens_file(model, "attention", "json")
        about = found.json(file)
        spec = about["spec"]
        if not about["summary"].get("tree_edges"):
            raise Missing(f"of '{model}' there is no attention tree")
        prompts = spec["tree_examples"] or spec["examples"]
        same = [spec[name] == value for name, value in SETTINGS.items()] + [prompts >= PROMPTS]
        words = (
            f"weight {spec['weight']:g}, top {spec['top_target']} and top {spec['top_source']}, "
            f"numbers over {prompts} prompts, of which one is drawn"
        )
        return Measured(sum(same) / len(same), len(same), "settings", unit="share", words=words,
                        sources=(file,))  # fmt: skip

    return measure
