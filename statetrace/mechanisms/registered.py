"""Registered algorithms as candidates of the verdict: distances from their own signatures.

As for the built-in ones, patching and probing compare the model row by row with what the program
predicts, its layers aligned monotonically with the program's rows (paths.aligned), and depth fits
the layers needed by length. Parity (or the first quotient) must be readable where a register of the
program is parity itself, and must not be where the program does not determine it.

Cost: one signature and one `layers_needed` per algorithm, a few tenths of a second.
Caveat: the verdict's weights were calibrated on the built-in algorithms only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from statetrace import plugins
from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.mechanisms.algorithms import Program, algorithm
from statetrace.mechanisms.distances import (
    Array,
    charged,
    knowledge,
    length_weights,
    line_misfit,
    weights,
)
from statetrace.mechanisms.evidence import Evidence, first_quotient
from statetrace.mechanisms.layers_needed import layers_needed
from statetrace.mechanisms.mechanism_map import MIXED, OTHER
from statetrace.mechanisms.paths import aligned
from statetrace.mechanisms.signatures import Signature, signature

PAIRS = 100

Distances = Mapping[str, Mapping[str, float]]
"""Lens -> algorithm -> distance."""

Candidates = Mapping[str, Mapping[str, float]]
"""Registered algorithm -> lens -> distance, for the lenses that measured something."""

NEAR, RESOLUTION = 4.0, {"patching": 0.02, "depth": 0.1, "probing": 0.02}
"""The odds of a registered algorithm against the best built-in one are the ratio of their distances
to this power, each lens with its measurement error."""

FAR = 1.0
"""The distance of "other" and "mixed"."""


def weigh(
    probabilities: dict[str, float], by_name: Candidates, built_in: Distances
) -> dict[str, float]:
    """The probabilities with registered algorithms among them. Each competes with the most probable
    built-in algorithm, by the distances of the lenses that were compared."""
    if not by_name:
        return probabilities
    best = max(probabilities, key=lambda name: probabilities[name])
    odds = {}
    for name, own in by_name.items():
        ratios = [
            (min(built_in[lens].get(best, np.inf), FAR) + floor) / (own[lens] + floor)
            for lens, floor in RESOLUTION.items()
            if lens in built_in and lens in own
        ]
        odds[name] = float(np.prod(ratios) ** NEAR) * probabilities[best] if ratios else 0.0
    known = {name: share for name, share in probabilities.items() if name not in (MIXED, OTHER)}
    rest = {name: probabilities[name] for name in (MIXED, OTHER)}
    shares = known | odds | rest
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def candidates(evidence: Evidence, group: Group) -> Candidates:
    """Registered algorithms that exist for the group; one that fails is left out with a warning."""
    by_name = {}
    for name in plugins.names("algorithm"):
        try:
            program = algorithm(name, group)
        except StatetraceError as error:
            if plugins.is_broken("algorithm", name):
                plugins.warn(str(error))
            continue  # it does not exist for this group
        try:
            by_name[name] = plugins.guarded("algorithm", name, _distances)(program, evidence, group)
        except StatetraceError as error:
            plugins.warn(str(error))
    return by_name


def _distances(program: Program, evidence: Evidence, group: Group) -> dict[str, float]:
    quotient = None if evidence.quotient is None else first_quotient(group)
    classes = None if quotient is None else quotient.map
    predicted = signature(program, group, evidence.length, pairs=PAIRS, by=quotient)
    distances = {}
    if evidence.state is not None:
        distances["probing"] = _probing(predicted, evidence)
    if evidence.restored:
        distances["patching"] = _patching(predicted, evidence)
    if evidence.settled:
        lengths = tuple(int(length) for length in evidence.depths)
        needed = layers_needed(program, lengths, PAIRS, classes)
        distances["depth"] = _depth(needed, evidence)
    return distances


def _patching(predicted: Signature, evidence: Evidence) -> float:
    """Mean absolute difference of the restored shares; the last column is 1 by definition."""
    length = next(iter(evidence.restored.values())).shape[1]
    by_prefix = weights(np.arange(1, length), np.arange(2, length + 1))
    costs = [
        np.abs(grid[:, None, :-1] - predicted.restored[split][None, :, :-1]) @ by_prefix
        for split, grid in evidence.restored.items()
    ]  # [rows, predicted rows] each
    return aligned(np.nan_to_num(np.mean(costs, axis=0), nan=1.0))


def _probing(predicted: Signature, evidence: Evidence) -> float:
    """Mean absolute difference of what is known of the state and, with half the weight, of parity,
    which may lie anywhere between what must and what can be readable."""
    lengths = evidence.lengths
    by_length = length_weights(lengths)
    column = lengths.astype(np.int64) - 1
    assert evidence.state is not None
    state = knowledge(evidence.state, evidence.order)
    expected = knowledge(predicted.state_probe[:, column], evidence.order)
    costs = np.abs(state[:, None] - expected[None]) @ by_length  # [rows, predicted rows]
    if evidence.parity is not None and predicted.parity_probe is not None:
        classes = evidence.order // evidence.unknown
        parity = knowledge(evidence.parity, classes)[:, None]
        most, least = (
            knowledge(predicted.parity_probe[kind][:, column], classes)[None]
            for kind in ("linear", "hidden")
        )
        outside = np.maximum(parity - most, 0.0) + np.maximum(least - parity, 0.0)
        costs = (costs + outside @ by_length) / 2
    return aligned(costs)


def _depth(needed: dict[str, list[float | None]], evidence: Evidence) -> float:
    """Root mean square misfit in layers of a + b x (layers needed), b at least 1, over lengths and
    splits; only a where the program needs equally many at every length."""
    curves, laws = [], []
    for split, settled in evidence.settled.items():
        measured: Array = (1.0 - settled).sum(axis=0)
        law = np.array([np.nan if value is None else value for value in needed[split]])
        known = ~np.isnan(law)
        curves.append(measured[known])
        laws.append(law[known])
    curve, law = np.concatenate(curves), np.concatenate(laws)
    if np.ptp(law) < 1e-9:
        return float(np.sqrt(charged(float(np.var(curve)), curve, 1)))
    return float(np.sqrt(charged(line_misfit(law, curve, 1.0), curve, 2)))
