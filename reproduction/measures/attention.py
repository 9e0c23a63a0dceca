"""Attention (section 4.5, appendix F): parity heads, and the tree that attention forms.

Caveat: the chance level of a score is what the best of all heads scores, on average, for arbitrary
sets of actions. A model without parity heads exceeds it about every second time.
"""

from __future__ import annotations

import numpy as np

from reproduction.lens_model import LensModel
from reproduction.measures.registry import each, rows
from reproduction.statistics import Number, mean_share, rank_correlation, share
from reproduction.tables import Missing, Row

Array = np.ndarray
CLEAR = 30
"""Points above chance from which a head is clearly a parity head, as in the verdict."""


def heads(model: LensModel) -> list[Row]:
    """All heads, the best parity-head score first."""
    scores = [row for row in model.table("attention") if row["measure"] == "head score"]
    if not scores or "top_score_by_chance" not in model.summary("attention"):
        raise Missing(f"'{model.folder}' has no parity-head scores")
    return sorted(scores, key=lambda row: -row["mean"])


@each("attention")
def head_score(model: LensModel, rank: int) -> Number:
    """The parity-head score (percent) of the best, second or third head."""
    head = heads(model)[rank - 1]
    where = f"layer {head['layer']}, head {head['head']}"
    return Number(head["mean"], head["n"], "sequences", head["low"], head["high"], "%", where)


@each("attention")
def above_chance(model: LensModel) -> Number:
    """Points by which the best head scores more than the chance level."""
    best, chance = heads(model)[0], model.summary("attention")["top_score_by_chance"]
    low, high = best["low"] - chance, best["high"] - chance
    return Number(best["mean"] - chance, best["n"], "sequences", low, high, "points")


@each("attention")
def early_heads(model: LensModel) -> Number:
    """The share of the depth that contains two heads whose whole interval exceeds 50%."""
    scores = heads(model)
    above = sorted(row["layer"] for row in scores if row["low"] > 50)
    if len(above) < 2:
        raise Missing(f"'{model.folder}' has fewer than two heads above 50%")
    return Number(above[1] / max(row["layer"] for row in scores), len(scores), "heads",
                  detail=f"layer {above[1]}")  # fmt: skip


def _maps(model: LensModel) -> tuple[list[Array], Array]:
    arrays = model.lens("attention").arrays
    if "top_maps" not in arrays:
        raise Missing(f"'{model.folder}' has no attention maps")
    return list(arrays["top_maps"].astype(float)), arrays["top_maps_odd"]


@each("attention")
def odd_attention(model: LensModel) -> Number:
    """The share of attention on odd actions, over targets of one sequence with both kinds before
    them, for the top head that attends to them most."""
    maps, odd = _maps(model)
    shares = [
        np.array([
            row[: t + 1][odd[: t + 1]].sum() / row[: t + 1].sum()
            for t, row in enumerate(weights)
            if 0 < odd[: t + 1].sum() < t + 1
        ])
        for weights in maps
    ]  # fmt: skip
    return mean_share(max(shares, key=lambda values: float(values.mean())), "targets", "share")


@each("attention")
def local_attention(model: LensModel) -> Number:
    """The largest share of a parity head's attention in one third of the prefix, over targets in
    the last third of one sequence, for the most local top head; even attention has a third."""
    best: Array | None = None
    for weights in _maps(model)[0]:
        length, thirds = len(weights), []
        for t in range(2 * length // 3, length):
            here = weights[t, : t + 1]
            if here.sum() > 0:
                thirds.append([part.sum() / here.sum() for part in np.array_split(here, 3)])
        shares = np.array(thirds)
        values = shares[:, int(shares.mean(0).argmax())]
        best = values if best is None or values.mean() > best.mean() else best
    assert best is not None
    return mean_share(best, "targets", "share")


@each("attention")
def tree_widening(model: LensModel) -> Number:
    """Rank correlation of a layer with the mean distance that its tree edges span."""
    spans = [span for span in model.summary("attention").get("tree_span", ()) if span is not None]
    if len(spans) < 3:
        raise Missing(f"'{model.folder}' has too few layers with edges")
    return rank_correlation(range(len(spans)), spans, "layers")


@each("attention")
def tree_thinning(model: LensModel) -> Number:
    """Rank correlation of a layer with the number of its tree edges."""
    edges = model.summary("attention").get("tree_edges", [])
    if len(edges) < 3 or not any(edges):
        raise Missing(f"'{model.folder}' has no attention tree")
    return rank_correlation(range(len(edges)), edges, "layers")


@rows
def clear_parity_heads(models: list[Row], present: bool) -> Number:
    """Of models with scores, the share whose best head clearly is a parity head, or is not."""
    surplus = [
        row["head_score"] - row["head_score_by_chance"]
        for row in models
        if row["head_score"] is not None
    ]
    return share(sum((points > CLEAR) == present for points in surplus), len(surplus))
