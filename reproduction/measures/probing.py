"""Numbers from the probes of one model: what can be read where (section 4.3).

Layers are counted as everywhere: 0 is the embedding, l the output of block l.
"""

from __future__ import annotations

import contextlib

import numpy as np

from reproduction.measured import Measure, Measured
from reproduction.model_selection import (
    S5_A,
    A,
    candidates,
    group_of,
    large_ones,
    looked_at,
    of_best,
    short,
    sized,
    zoo,
)
from reproduction.results import Missing, Results, lens_file, lens_files
from statetrace.lenses.parts.intervals import CONFIDENCE, quantile, wilson

Array = np.ndarray
GUESSED, READ, LINEAR = 0.6, 0.9, 0.95
"""Accuracies of a probe of parity: what up to the first is counted as guessing, from the second on
as reading, and from the third on as parity being linear."""
OVER_SEQUENCES = "interval over the sequences of each"
"""Said where few models are counted, each of which was asked many sequences."""


def curve(
    found: Results, model: str, target: str, position: str = "last", column: str = "mean",
    metric: str = "accuracy",
) -> tuple[Array, int]:  # fmt: skip
    """A probe's accuracy by layer at the longest length that was looked at, and the number of
    held-out sequences."""
    most = looked_at(found, model) or np.inf
    rows = [
        row
        for row in found.table(lens_file(model, "probing"))
        if (row["target"], row["position"], row["metric"]) == (target, position, metric)
        and row["length"] <= most
    ]
    if not rows:
        raise Missing(f"of '{model}' there are no probes of {target}, {position} token")
    length = max(row["length"] for row in rows)
    rows = sorted((row for row in rows if row["length"] == length), key=lambda row: row["layer"])
    if any(row[column] is None for row in rows):  # a single subset has no deviation
        raise Missing(f"the probes of '{model}' have no {column}")
    return np.array([row[column] for row in rows]), int(rows[0]["n"])


@of_best
def best_before_last(model: str, target: str, ahead_of: str = "") -> Measure:
    """What a probe reads at the best of all layers before the last; with another target, of those
    at which that is not read yet. The interval holds for all of these layers at once."""

    def measure(found: Results) -> Measured:
        values, n = curve(found, model, target)
        words = f"by layer {_percents(values)}"
        layers = np.arange(len(values) - 1)
        if ahead_of:
            other, _ = curve(found, model, ahead_of)
            layers = layers[other[:-1] < READ]
            words += f"; {ahead_of} {_percents(other)}"
        sources = lens_files(model, "probing")
        if not len(layers):
            return Measured(None, words=words, sources=sources)
        at = int(layers[values[layers].argmax()])
        low, high = wilson(np.array(values[at] * n), n, 1 - (1 - CONFIDENCE) / len(layers))
        return Measured(float(values[at]), n, "sequences", float(low), float(high), "share",
                        f"layer {at} of {len(values) - 1}, the best of {len(layers)}; {words}",
                        sources)  # fmt: skip

    return measure


def _percents(values: Array) -> str:
    return " ".join(f"{100 * value:.0f}" for value in values)


def last_parity(found: Results, model: str) -> float:
    """How often a probe reads parity from the last layer."""
    return float(curve(found, model, "parity")[0][-1])


def last_parities(found: Results) -> dict[str, float]:
    """The same of all AA models, of S3 and S5, one for each run."""
    read = {}
    for name in (*large_ones(found, A, "probing.csv"), zoo(A), *candidates(found, S5_A)):
        with contextlib.suppress(Missing):
            read[name] = last_parity(found, name)
    if not read:
        raise Missing("no AA model was probed")
    return read


def parity_kinds(found: Results) -> Measured:
    """How many of two kinds there are among AA models: parity is linear in the last layer, or a
    probe can only guess it."""
    read = last_parities(found)
    values = read.values()
    kinds = (max(values) >= LINEAR) + (min(values) <= GUESSED)
    listed = ", ".join(
        f"{value:.0%} ({group_of(found, name)}, {called(found, name)})"
        for name, value in read.items()
    )
    words = f"linear from {LINEAR:.0%} on, not up to {GUESSED:.0%}; a probe reads {listed}"
    made = Measured(kinds, len(read), "models", unit="kinds", words=words,
                    sources=tuple(lens_file(name, "probing") for name in read))  # fmt: skip
    return sized(found, made, list(read))


def called(found: Results, name: str) -> str:
    """A few words for a model, the zoo's as well."""
    return short(found, name) or name.replace("zoo/", "zoo:")


@of_best
def once_known(model: str, known: str, target: str, threshold: float = 0.98) -> Measure:
    """The probability that a target's probe gives to the truth at the first layer at which another
    target is known. The interval is that of a share, which deviates most of all numbers from 0 to
    1."""

    def measure(found: Results) -> Measured:
        sure, n = curve(found, model, known)
        values, _ = curve(found, model, target, metric="probability")
        sources = lens_files(model, "probing")
        if not (sure >= threshold).any():
            return Measured(None, words=f"{known} is never known", sources=sources)
        layer = int((sure >= threshold).argmax())
        words = f"layer {layer} of {len(values) - 1}; by layer {_percents(values)}"
        low, high = wilson(np.array(values[layer] * n), n)
        return Measured(float(values[layer]), n, "sequences", float(low), float(high), "share",
                        words, sources)  # fmt: skip

    return measure


def deeper_half(values: Array, n: int) -> tuple[float, float]:
    """Of what a probe gains from the embedding on, the share gained in the deeper half, and half of
    its interval over n sequences."""
    middle = (len(values) - 1) // 2
    gain = values[-1] - values[0]
    used = values[[0, middle, -1]]
    off = quantile() * np.sqrt((used * (1 - used)).sum() / n) / gain
    return float((values[-1] - values[middle]) / gain), float(off)


def percent_by_layer(values: Array) -> str:
    return f"percent right by layer {_percents(values)}"


@of_best
def late_gain(model: str) -> Measure:
    """Of what the state probe gains from the embedding on, the share gained in the deeper half."""

    def measure(found: Results) -> Measured:
        values, n = curve(found, model, "state", "any")
        words = percent_by_layer(values)
        sources = lens_files(model, "probing")
        if values[-1] <= values[0]:
            return Measured(None, words=words, sources=sources)
        value, off = deeper_half(values, n)
        return Measured(value, n, "sequences", value - off, value + off, "share", words, sources)

    return measure


@of_best
def read_depth(model: str, target: str, threshold: float = 0.9) -> Measure:
    """Share of the depth from which on a probe is right in `threshold` of the cases."""

    def measure(found: Results) -> Measured:
        values, n = curve(found, model, target)
        sources = lens_files(model, "probing")
        if not (values >= threshold).any():
            return Measured(None, words=f"never {threshold:.0%}", sources=sources)
        last = len(values) - 1
        layers = [
            int((curve >= threshold).argmax()) if (curve >= threshold).any() else last
            for curve in (values, *reversed(wilson(values * n, n)))
        ]
        words = f"{threshold:.0%} from layer {layers[0]} of {last} on"
        at, low, high = (layer / last for layer in layers)
        return Measured(at, n, "sequences", low, high, words=words, sources=sources)

    return measure


def parity_ahead(prefix: str) -> Measure:
    """How far the parity probe gets ahead of the state's at any layer, each counted from chance (0)
    to right (1), of all models whose folders begin so in the one where it gets furthest; the
    interval is over the sequences that it was asked."""

    def measure(found: Results) -> Measured:
        gaps, errors, said, names = [], [], [], []
        for name in found.folders(prefix):
            (parity, its), (state, other) = (
                _above_chance(found, name, target) for target in ("parity", "state")
            )
            gap = parity - state
            gaps.append(float(gap.max()))
            errors.append(float(np.hypot(its, other)[gap.argmax()]))
            said.append(f"{gap.max():.2f} at layer {gap.argmax()} of {len(gap) - 1}")
            names.append(name)
        if not names:
            raise Missing(f"no folder of results/ begins with '{prefix}'")
        value, off = max(zip(gaps, errors, strict=True))
        made = Measured(value, len(names), "models", value - off, value + off,
                        words=f"the most of all; {', '.join(said)}",
                        sources=tuple(lens_file(name, "probing") for name in names))  # fmt: skip
        return sized(found, made, names)

    return measure


def _above_chance(found: Results, model: str, target: str) -> tuple[Array, Array]:
    """A probe's accuracy by layer, with 0 for guessing and 1 for always right, and half of its
    interval."""
    (values, n), (chance, _) = (
        curve(found, model, target, column=column) for column in ("mean", "chance")
    )
    low, high = wilson(values * n, n)
    return (values - chance) / (1 - chance), (high - low) / 2 / (1 - chance)


@of_best
def length_bend(model: str, least: float = 0.5) -> Measure:
    """How the longest sequences grow whose state a layer knows, that is, to which its probe gives a
    probability of `least` on average. Looked at half-way from the first layer that knows any to
    the last: 0 if the length there is the arithmetic mean of theirs, as by equal steps, 1 if it is
    the geometric one, as by doubling. The interval is that of the next lengths tried."""

    def measure(found: Results) -> Measured:
        most = looked_at(found, model) or np.inf
        rows = [
            row
            for row in found.table(lens_file(model, "probing"))
            if (row["target"], row["position"], row["metric"]) == ("state", "last", "probability")
            and row["length"] <= most
        ]
        if not rows:
            raise Missing(f"of '{model}' there are no probabilities of states by length")
        layers = range(max(row["layer"] for row in rows) + 1)
        known = [
            max((r["length"] for r in rows if r["layer"] == at and r["mean"] >= least), default=0)
            for at in layers
        ]
        sources = lens_files(model, "probing")
        words = f"longest known by layer {' '.join(map(str, known))}"
        start = next((layer for layer in layers if known[layer]), layers[-1])
        if layers[-1] - start < 2 or known[-1] <= known[start]:
            return Measured(None, words=f"known in too few layers: {words}", sources=sources)
        first, last = known[start], known[-1]
        half = float(np.interp((start + layers[-1]) / 2, layers, known))
        steps, doubling = (first + last) / 2, (first * last) ** 0.5
        words += f"; half-way {half:.3g}, by doubling {doubling:.3g}, by equal steps {steps:.3g}"
        apart = max(np.diff(sorted({row["length"] for row in rows})))
        value, low, high = (
            float((steps - half - by) / (steps - doubling)) for by in (0, apart, -apart)
        )
        return Measured(value, rows[0]["n"], "sequences", low, high, words=words, sources=sources)

    return measure
