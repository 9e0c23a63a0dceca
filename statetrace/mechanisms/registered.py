"""Registered algorithms as candidates of the verdict: distances from their own signatures.

As for the built-in ones, patching and probing compare the model row by row with what the program
predicts, its layers aligned monotonically with the program's rows (paths.aligned), and depth fits
the layers needed by length. Parity (or the first quotient) must be readable where a register of the
program is parity itself, and must not be where the program does not determine it.

Cost: one signature and one `layers_needed` per algorithm, a few tenths of a second.
Caveat: the verdict's weights were calibrated on the built-in algorithms only.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from statetrace.mechanisms.paths import aligned
from statetrace.mechanisms.signatures import Signature, signature

PAIRS = 100

TOGETHER, FIRST, COUNTED = "together", "first", "counted"
"""How an algorithm treats parity: with the state, before a state that takes more layers for longer
sequences, or before one that does not."""


@dataclass(frozen=True)
class Candidate:
    """Attributes:
    distances: lens -> distance, for the lenses that measured something.
    parity: TOGETHER, FIRST or COUNTED.
    """

    distances: dict[str, float]
    parity: str


def candidates(evidence: Evidence, group: Group) -> dict[str, Candidate]:
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
            by_name[name] = plugins.guarded("algorithm", name, _candidate)(program, evidence, group)
        except StatetraceError as error:
            plugins.warn(str(error))
    return by_name


def _candidate(program: Program, evidence: Evidence, group: Group) -> Candidate:
    quotient = None if evidence.quotient is None else first_quotient(group)
    classes = None if quotient is None else quotient.map
    predicted = signature(program, group, evidence.length, pairs=PAIRS, by=quotient)
    distances = {"probing": _probing(predicted, evidence)}
    if evidence.restored:
        distances["patching"] = _patching(predicted, evidence)
    if evidence.settled:
        lengths = tuple(int(length) for length in evidence.depths)
        needed = layers_needed(program, lengths, PAIRS, classes)
        distances["depth"] = _depth(needed, evidence)
    return Candidate(distances, _parity(program, predicted, evidence.length))


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


def _parity(program: Program, predicted: Signature, length: int) -> str:
    if predicted.parity_probe is None:
        return TOGETHER
    before = (predicted.parity_probe["linear"] == 1.0) & (predicted.state_probe < 1.0)
    if not before.any():
        return TOGETHER
    return COUNTED if program.depth(length) == program.depth(max(2, length // 2)) else FIRST
