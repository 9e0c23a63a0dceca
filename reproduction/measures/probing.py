"""Probes (section 4.3, appendix C): what a linear classifier reads, layer by layer.

Position "last" is the last action of a sequence; "any" is one random position of each sequence,
"all" every position, as in the released code.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from reproduction.lens_model import LensModel
from reproduction.measures.registry import each
from reproduction.statistics import Number, Z, deviation_interval, wilson
from reproduction.tables import Missing, Row

Array = np.ndarray
READ = 0.9
"""A probe with this accuracy reads its target."""
KNOWN = 0.98
LINEAR, GUESSED = 0.95, 0.6
"""Parity is linear from the first accuracy on, and hidden from a linear probe up to the second."""


def curve(
    model: LensModel, target: str, position: str = "last", column: str = "mean",
    metric: str = "accuracy",
) -> tuple[Array, int]:  # fmt: skip
    """A probe's number by layer at the longest analyzed length, and the number of sequences."""
    rows = _rows(model, target, position, metric)
    length = max(row["length"] for row in rows)
    rows = sorted((row for row in rows if row["length"] == length), key=lambda row: row["layer"])
    if any(row[column] is None for row in rows):
        raise Missing(f"the probes of '{model.folder}' have no {column}")
    return np.array([row[column] for row in rows]), int(rows[0]["n"])


def _rows(model: LensModel, target: str, position: str, metric: str) -> list[Row]:
    longest = model.analyzed_length or np.inf
    rows = [
        row
        for row in model.table("probing")
        if (row["target"], row["position"], row["metric"]) == (target, position, metric)
        and row["length"] <= longest
        and row.get("control", "none") == "none"
    ]
    if not rows:
        raise Missing(f"'{model.folder}' has no probes of {target}, position {position}")
    return rows


@each("probing")
def best_before_last(
    model: LensModel, target: str, position: str = "last", ahead_of: str = ""
) -> Number:
    """The best accuracy before the last layer; with `ahead_of`, only over layers where that target
    is not read yet. The interval holds for all these layers at once (Bonferroni)."""
    values, n = curve(model, target, position)
    layers = np.arange(len(values) - 1)
    if ahead_of:
        layers = layers[curve(model, ahead_of, position)[0][:-1] < READ]
    if not len(layers):
        raise Missing(f"'{model.folder}' reads {ahead_of} everywhere")
    at = int(layers[values[layers].argmax()])
    z = NormalDist().inv_cdf(1 - 0.025 / len(layers))
    return Number(float(values[at]), n, "sequences", *wilson(values[at] * n, n, z), "share",
                  f"layer {at}")  # fmt: skip


@each("probing")
def probability_once_known(model: LensModel, known: str, target: str) -> Number:
    """The probability that the target's probe gives the truth at the first layer where `known` is
    known (98%)."""
    sure, n = curve(model, known)
    if not (sure >= KNOWN).any():
        raise Missing(f"'{model.folder}' never knows {known}")
    layer = int((sure >= KNOWN).argmax())
    value = float(curve(model, target, metric="probability")[0][layer])
    return Number(value, n, "sequences", *wilson(value * n, n), detail=f"layer {layer}")


@each("probing")
def late_gain(model: LensModel, position: str = "any") -> Number:
    """Of what the state probe gains from the embedding to the last layer, the share gained in the
    deeper half of the layers."""
    values, n = curve(model, "state", position)
    if values[-1] <= values[0]:
        raise Missing(f"the state probe of '{model.folder}' gains nothing")
    middle, gain = (len(values) - 1) // 2, values[-1] - values[0]
    used = values[[0, middle, -1]]
    off = float(Z * np.sqrt((used * (1 - used)).sum() / n) / gain)
    value = float((values[-1] - values[middle]) / gain)
    return Number(value, n, "sequences", value - off, value + off, "share")


@each("probing")
def read_depth(model: LensModel, target: str) -> Number:
    """The share of the depth from which on a probe reads its target (90%)."""
    values, n = curve(model, target)
    if not (values >= READ).any():
        raise Missing(f"'{model.folder}' never shows {target}")
    last = len(values) - 1
    ends = np.array([wilson(value * n, n) for value in values]).T
    depths = [
        (int((line >= READ).argmax()) if (line >= READ).any() else last) / last
        for line in (values, *ends)
    ]
    return Number(depths[0], n, "sequences", min(depths), max(depths),
                  detail=f"layer {round(depths[0] * last)} of {last}")  # fmt: skip


@each("probing")
def length_bend(model: LensModel) -> Number:
    """How the longest sequence whose state a layer knows (probability 0.5) grows with depth, as
    patching.front_bend. The interval is that of the next lengths tried."""
    rows = _rows(model, "state", "last", "probability")
    layers = range(max(row["layer"] for row in rows) + 1)
    known = [
        max((r["length"] for r in rows if r["layer"] == layer and r["mean"] >= 0.5), default=0)
        for layer in layers
    ]
    start = next((layer for layer in layers if known[layer]), layers[-1])
    if layers[-1] - start < 2 or known[-1] <= known[start]:
        raise Missing(f"'{model.folder}' knows states in too few layers")
    first, last = known[start], known[-1]
    halfway = float(np.interp((start + layers[-1]) / 2, layers, known))
    steps, doubling = (first + last) / 2, (first * last) ** 0.5
    apart = max(np.diff(sorted({row["length"] for row in rows})))
    if apart > (steps - doubling) / 2:
        raise Missing(f"'{model.folder}' was probed at too few lengths to tell")
    value, low, high = (
        float((steps - halfway - by) / (steps - doubling)) for by in (0, apart, -apart)
    )
    return Number(value, rows[0]["n"], "sequences", low, high)


@each("probing")
def largest_deviation(
    model: LensModel, target: str, position: str = "last", square: bool = False
) -> Number:
    """The largest standard deviation of a probe's accuracy over training subsets among layers; its
    variance if `square`."""
    values, _ = curve(model, target, position, column="std")
    n = int(model.summary("probing")["subsets"])
    power = 2 if square else 1
    value = float(values.max())
    low, high = (end**power for end in deviation_interval(value, n))
    return Number(value**power, n, "subsets", low, high)


@each("probing")
def parity_ahead(model: LensModel) -> Number:
    """How far the parity probe is ahead of the state probe at any layer, both from chance (0) to
    perfect (1)."""
    scaled, off = [], []
    for target in ("parity", "state"):
        (values, n), (chance, _) = (curve(model, target, column=c) for c in ("mean", "chance"))
        ends = np.array([wilson(value * n, n) for value in values])
        scaled.append((values - chance) / (1 - chance))
        off.append((ends[:, 1] - ends[:, 0]) / 2 / (1 - chance))
    gap = scaled[0] - scaled[1]
    at = int(gap.argmax())
    half = float(np.hypot(*off)[at])
    return Number(float(gap[at]), n, "sequences", float(gap[at]) - half, float(gap[at]) + half)
