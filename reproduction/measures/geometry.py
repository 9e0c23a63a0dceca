"""Geometry (section 4.3, appendices C.3 and D): the shape that states form."""

from __future__ import annotations

import numpy as np

from reproduction.lens_model import LensModel
from reproduction.measures.probing import GUESSED, LINEAR, curve
from reproduction.measures.registry import each, together
from reproduction.statistics import Number, Z, share
from reproduction.tables import Missing, Row

CLEAR, RARE = 0.5, 0.05
"""A prism has at least this score, and permuted states reach it less often than this."""


def prism(model: LensModel) -> Row:
    about = model.summary("geometry").get("prism")
    if not about:
        raise Missing(f"'{model.folder}' has no pairs of states")
    return dict(about)


@each("geometry")
def prism_score(model: LensModel) -> Number:
    """1 for a perfect prism; 0 where permuted states score as much too often (p ≥ 0.05)."""
    about = prism(model)
    value = float(about["score"]) if about["p"] < RARE else 0.0
    return Number(value, model.summary("geometry")["sequences"], "sequences",
                  detail=f"p = {about['p']:.2g}")  # fmt: skip


@each("geometry")
def spoke_angle(model: LensModel) -> Number:
    """The largest distance of an angle between spokes, as undirected lines, from 60°."""
    value = max(abs(angle - 60) for angle in prism(model)["line_angles"])
    return Number(float(value), model.summary("geometry")["sequences"], "sequences", unit="°")


@each("geometry")
def right_angle(model: LensModel) -> Number:
    """1 where the parity direction is orthogonal to the plane of the clusters."""
    value = float(prism(model)["right_angle"])
    return Number(value, model.summary("geometry")["sequences"], "sequences")


@together("geometry")
def pairings(models: list[LensModel]) -> Number:
    """How many different pairings of states the prisms have."""
    pairs = [
        tuple(sorted(tuple(sorted(pair)) for pair in prism(model)["pairs"])) for model in models
    ]
    return Number(len(set(pairs)), len(models), "models", unit="pairings")


@each("geometry")
def last_variance(model: LensModel, linear: bool) -> Number:
    """The share of the last layer's variance along three principal components, of a model in which
    parity is linear there, or is hidden from a linear probe."""
    read = curve(model, "parity")[0][-1]
    if (linear and read < LINEAR) or (not linear and read > GUESSED):
        raise Missing(f"in '{model.folder}' a probe reads parity in {read:.0%}")
    about = model.summary("geometry")
    value, n = float(sum(about["explained_variance"])), about["sequences"]
    off = Z * value * (1 - value) * (2 / n) ** 0.5  # for normal activations
    return Number(value, n, "sequences", value - off, value + off, "share")


@each("geometry")
def plane(model: LensModel) -> Number:
    """Of points of the last layer along three principal components, the share on the side of their
    parity of the best plane (logistic regression)."""
    arrays, parity = model.lens("geometry").arrays, model.group.parity
    if "pca_points" not in arrays or parity is None:
        raise Missing(f"'{model.folder}' has no points of the last layer")
    odd = parity[arrays["point_states"]] == 1
    points = arrays["pca_points"][-1].astype(float)
    x = np.c_[(points - points.mean(0)) / points.std(0), np.ones(len(points))]
    weights = np.zeros(x.shape[1])
    for _ in range(50):  # Newton's method, with slight weight decay
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, x.T @ (p - odd) + 1e-3 * weights)
    correct = int(max(((x @ weights > 0) == odd).sum(), odd.sum(), (~odd).sum()))
    return share(correct, len(odd), "sequences")
