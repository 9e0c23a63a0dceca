"""Numbers from the shape that the states of one model have: the prism, clusters, components
(section 4.3, appendices C.3 and D).

Caveat: activations are not kept, so intervals of a prism are drawn anew from its corners and their
standard errors; where these were not kept either, from the most that they can be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from statetrace.groups import group
from statetrace.lenses.parts import prism
from statetrace.lenses.parts.intervals import quantile
from statetrace.reproduction.kept import S5_P, first, group_of, of_best, sized
from statetrace.reproduction.measured import Measure, Measured, share_of
from statetrace.reproduction.of_models import parity_is_linear
from statetrace.reproduction.results import Missing, Results, lens_file, lens_files

Array = np.ndarray
DRAWS = 1_000
Prism = dict[str, Any]
"""As in the geometry lens's summary, with `heights` [6]: the states' places along the parity
direction, even ones first."""


@of_best
def shape(model: str, number: Callable[[Prism], tuple[float, str]], unit: str = "") -> Measure:
    """A number of a model's clearest prism, with its interval over sequences."""

    def measure(found: Results) -> Measured:
        about = found.json(lens_file(model, "geometry", "json"))["summary"]
        drawn = found.json(file) if found.exists(file := _drawn(model)) else {}
        means = np.array(drawn.get("prism_means", np.empty((0, 3))), dtype=float)
        try:
            seen = about["prism"] | (_heights(means) if len(means) == 6 else {})
            value, words = number(seen)
        except (KeyError, TypeError) as error:  # as where not all states were visited
            raise Missing(f"of '{model}' the geometry says nothing of {error}") from None
        sources = lens_files(model, "geometry.json")
        if len(means) != 6:
            return Measured(value, about["sequences"], "sequences", unit=unit, words=words,
                            sources=sources)  # fmt: skip
        errors = corner_errors(found, model)
        again = [number(one)[0] for one in _again(means.tobytes(), errors.tobytes())]
        low, high = np.percentile([*again, value], [2.5, 97.5])
        return Measured(value, about["sequences"], "sequences", min(value, float(low)),
                        max(value, float(high)), unit, words,
                        (*sources, *lens_files(model, "geometry"), _drawn(model)))  # fmt: skip

    return measure


def corner_errors(found: Results, model: str) -> Array:
    """Standard errors of a prism's corners along its three axes [6, 3]. If they were not kept, the
    most that they can be: no direction has more variance than the first principal component, nor
    more within states than all directions have together."""
    drawn = found.json(_drawn(model))
    if "prism_errors" in drawn:
        return np.array(drawn["prism_errors"], dtype=float)
    layer = found.json(lens_file(model, "geometry", "json"))["summary"]["best_layer"]
    rows = {
        (row["measure"], str(row["name"])): row
        for row in found.table(lens_file(model, "geometry"))
        if row["layer"] == layer and row["measure"] in ("between_share", "explained_variance")
    }
    share, n = (rows["between_share", "state"][name] for name in ("value", "n"))
    means = np.array(drawn["prism_means"])
    between = ((means - means.mean(0)) ** 2).sum(1).mean()
    along = min(1 - share, rows["explained_variance", "1"]["value"]) * between / share
    return np.full(means.shape, np.sqrt(along * len(means) / n))


def _drawn(model: str) -> str:
    return lens_file(model, "drawn", "json")


@lru_cache(maxsize=64)
def _again(corners: bytes, off_by: bytes) -> list[Prism]:
    """Prisms of corners [6, 3] that are off at random, by their errors. Several rows ask for those
    of one model, so that they are kept; arrays come as bytes for that."""
    means, errors = (np.frombuffer(one).reshape(6, 3) for one in (corners, off_by))
    among = prism.pairings(group("S3"))
    off = np.random.default_rng(0).normal(size=(DRAWS, *means.shape)) * errors
    grams = prism.gram(means + off)
    scores = prism.score(grams, among)
    assert scores.right_angle is not None
    made = []
    for i, gram in enumerate(grams):
        seen = prism.shape(gram, among, int(scores.chosen[i]))
        made.append(
            _heights(means + off[i])
            | {
                "score": float(scores.score[i]),
                "null": np.nan,
                "right_angle": float(scores.right_angle[i]),
                "additive": float(scores.additive[i]),
                "line_angles": seen.line_angles[np.triu_indices(3, 1)].tolist(),
                "within_distance": seen.within.tolist(),
            }
        )
    return made


def _heights(means: Array) -> Prism:
    """Along the direction from the even states' mean to that of the odd ones."""
    odd = _odd("S3")
    direction = means[odd].mean(0) - means[~odd].mean(0)
    along = means @ direction / np.linalg.norm(direction)
    return {"heights": [*along[~odd].tolist(), *along[odd].tolist()]}


def _odd(of: str) -> Array:
    parity = group(of).parity
    if parity is None:
        raise Missing(f"{of} has no parity")
    return np.asarray(parity == 1)


@of_best
def split_by_plane(model: str, linear: bool) -> Measure:
    """Of points of the last layer along three principal components, the share that the best plane
    puts on the side of its parity; of a model in which parity is linear there or is not."""

    def measure(found: Results) -> Measured:
        if parity_is_linear(found, model) != linear:
            raise Missing(f"in '{model}' parity is {'not ' * linear}linear in the last layer")
        last = found.json(_drawn(model)).get("last")
        if not last:
            raise Missing(f"of '{model}' there are no points of the last layer")
        odd = _odd(group_of(found, model))[np.array(last["states"])]
        right = best_plane(np.array(last["points"]), odd)
        return share_of(right, len(odd), "sequences", (_drawn(model),),
                        "along three principal components")  # fmt: skip

    return measure


def best_plane(points: Array, odd: Array) -> int:
    """How many points [n, d] are on the right side of a plane that logistic regression finds, or of
    none if all are called alike."""
    scaled = np.c_[(points - points.mean(0)) / points.std(0), np.ones(len(points))]
    weights = np.zeros(scaled.shape[1])
    for _ in range(50):  # Newton's steps, with a little weight decay for classes that part
        p = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        slope = scaled.T @ (p - odd) + 1e-3 * weights
        curvature = (scaled * (p * (1 - p))[:, None]).T @ scaled + 1e-3 * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, slope)
    said = scaled @ weights > 0
    return int(max((said == odd).sum(), odd.sum(), (~odd).sum()))


def merged_clusters(found: Results) -> Measured:
    """Of the clusters that a PAA model of S5 has by what is where, the smallest distance between
    two, in units of the mean one; one layer before the last."""
    name, rows = first(found, S5_P, lambda name: found.table(lens_file(name, "geometry")))
    layer = max(row["layer"] for row in rows) - 1
    here = {
        row["name"]: row["value"]
        for row in rows
        if (row["measure"], row["layer"]) == ("cluster_distance", layer)
    }
    if not here:
        raise Missing(f"of '{name}' there are no distances of clusters")
    nearest = min(here, key=lambda pair: float(here[pair]))
    words = f"{nearest}, layer {layer} of {layer + 1}; all " + " ".join(
        f"{value:.2f}" for value in sorted(here.values())
    )
    made = Measured(here[nearest], len(here), "pairs of clusters", words=words,
                    sources=(lens_file(name, "geometry"),))  # fmt: skip
    return sized(found, made, [name])


def three_components(found: Results) -> Measured:
    """Of the variance one layer before the last of a PAA model of S5, the share along three
    principal components."""
    name, rows = first(found, S5_P, lambda name: found.table(lens_file(name, "geometry")))
    layer = max(row["layer"] for row in rows) - 1
    parts = [
        row for row in rows if (row["measure"], row["layer"]) == ("explained_variance", layer)
    ][:3]
    if not parts:
        raise Missing(f"of '{name}' there are no principal components")
    value, n = float(sum(row["value"] for row in parts)), int(parts[0]["n"])
    off = float(quantile()) * value * (1 - value) * (2 / n) ** 0.5  # as of normal activations
    words = f"layer {layer} of {layer + 1}; components " + " ".join(
        f"{100 * row['value']:.1f}%" for row in parts
    )
    made = Measured(value, n, "sequences", value - off, value + off, "share", words,
                    (lens_file(name, "geometry"),))  # fmt: skip
    return sized(found, made, [name])


def mirrored(found: Results) -> Measured:
    """Of what tells the states of a PAA model of S5 apart beside parity, the share that an even
    state has in common with the odd one that it is paired with: 1 for a mirror image, a half for
    none. For the best pairing by an element, at the layer where it is clearest."""
    name, about = first(found, S5_P, lambda name: _prism(found, name))
    words = (
        f"pairs by '{about['by']}', layer {about['layer']}; p = {about['p_pairing']:.2g} by "
        "permuted states"
    )
    made = Measured(about["pairing"], group("S5").order // 2, "pairs", unit="share", words=words,
                    sources=(lens_file(name, "geometry", "json"),))  # fmt: skip
    return sized(found, made, [name])


def _prism(found: Results, name: str) -> Prism:
    about = found.json(lens_file(name, "geometry", "json"))["summary"].get("prism")
    if not about:
        raise Missing(f"of '{name}' there are no pairs of states")
    return dict(about)
