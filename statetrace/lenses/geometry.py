"""The geometry of the states inside the model (section 4.2 and appendices C.3 and D).

Purpose: the mean activation of every state at the last token, layer by layer: the share of parity,
whether pairs of states form the paper's triangular prism (prism.py), whether states cluster by the
position of one object, their coordinates along principal components, and the share of their
variance in each irreducible representation of the group (groups/characters.py).

Cost: one forward pass over `sequences` sequences, and about as much again per layer for permuted
labels. A 4-layer, width-64 model on S3, length 16: 2 to 3 s on one core.
Caveat: `null` is the value for states without structure: the mean over permuted labels where `p` is
given (permuted over all sequences; for the pairing of the prism within each parity), else the share
of dimensions. Means over few sequences per state contain noise of that kind, so interpret shares
only where `between_share` is well above its null.

The table, one number per row: `layer` 0 is the embedding, l the output of block l.

| measure            | name                 | value                                               |
|--------------------|----------------------|-----------------------------------------------------|
| between_share      | state                | variance between states / variance of the points    |
| quotient_share     | parity, Z3, ...      | of the variance between states, between its cosets  |
| quotient_accuracy  | parity, Z3, ...      | points nearest to the mean of their coset           |
| parity             | d_prime, margin      | separation along the parity direction               |
| prism              | score, pairing, ...  | the score and its factors: see prism.py             |
| pair_agreement     | all                  | pairs shared with the best of all matchings         |
| within_distance    | 123+213, all         | between the two states of a pair; all: the mean     |
| within_complement  | 123+213, all         | the same without the parity direction               |
| between_distance   | 123+213 231+132, all | between pair centres, without the parity direction  |
| angle              | 123+213 231+132      | between spokes as vectors, 120° in a prism          |
| line_angle         | 123+213 231+132      | between spokes as lines, the paper's 60°            |
| arrangement_share  | object 1, position 1 | of the variance between states, by the position of  |
|                    |                      | object 1; by the object at position 1               |
| cluster_distance   | object 1: 4-5        | between cluster means, relative to the mean one,    |
|                    |                      | for the arrangement with the largest share          |
| irrep_share        | sign, 4a, ...        | of the variance between states                      |
| explained_variance | 1, 2, 3              | of the points, along principal components           |
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.groups.characters import Component, characters
from statetrace.lenses.parts.activations import chosen_layers, residuals
from statetrace.lenses.parts.answers import answers, check_fits, device_of, low_accuracy, too_few
from statetrace.lenses.parts.geometry_rows import Rows
from statetrace.lenses.parts.layer_geometry import LayerGeometry, Setting, measure_layer
from statetrace.lenses.parts.prism import pairings
from statetrace.lenses.parts.state_means import arrangements
from statetrace.lenses.result import LensResult, Progress, no_progress, part_of
from statetrace.lenses.specs import GeometrySpec
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

_ANSWERED = 512  # sequences for the accuracy
_MEANS_SAVED = 2**26  # maximum bytes of saved state means
_FORWARD = 0.5  # share of the progress


def geometry(
    model: Any,
    task: WordProblem,
    spec: GeometrySpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """The geometry of the state means at every chosen layer."""
    spec = spec or GeometrySpec()
    length = task.length if spec.length is None else spec.length
    check_fits(model, task, length)
    layers = chosen_layers(spec.layers, anatomy(model).layers)
    drawn = task.draw(spec.sequences, spec.seed, length)
    states = drawn.states[:, -1].astype(np.int64)  # [n]
    shared, notes = _shared(task, spec, states, device_of(model))
    notes += too_few(len(drawn), spec.sequences, length)
    tokens = task.encode(drawn.actions)
    running = part_of(progress, 0.0, _FORWARD)
    stream = residuals(model, tokens, [tokens.shape[1] - 1], done=running)  # [L + 1, n, 1, D]
    rows, measured = Rows(), []
    for done, layer in enumerate(layers, start=1):
        points = stream[layer, :, 0].float().cpu().numpy()
        measured.append(measure_layer(points, layer, shared, rows))
        progress(_FORWARD + (1 - _FORWARD) * done / len(layers))
    accuracy = _accuracy(model, task, drawn)
    notes += low_accuracy(accuracy, task.group.order, f"at length {length}")
    notes += _noise_notes(measured)
    return LensResult(
        lens="geometry",
        spec=dataclasses.asdict(spec) | {"length": length, "layers": list(layers)},
        columns=rows.columns,
        arrays=_arrays(measured, shared, layers),
        summary=_summary(measured, shared) | {"length": length, "accuracy": accuracy},
        notes=tuple(notes),
    )


def _shared(
    task: WordProblem, spec: GeometrySpec, states: np.ndarray, where: torch.device
) -> tuple[Setting, list[str]]:
    """The inputs that all layers share, and notes about them."""
    group, notes = task.group, []
    visited = len(np.unique(states))
    if visited < 2:
        raise StatetraceError(
            f"all {len(states)} sequences of {group.name} end in one state; use more or longer "
            "sequences, or a group with more than one element"
        )
    quotients: tuple[Quotient, ...] = ()
    try:
        quotients = task.quotients(spec.quotients)
    except StatetraceError as error:
        if spec.quotients is not None:
            raise
        notes.append(f"no shares of quotients: {error}")
    if group.parity is None:
        notes.append(
            f"{group.name} has no parity, so there are no parity rows, pairs and prism; see "
            "quotient_share for its quotients"
        )
    if visited < group.order:
        missing = "pairs, the prism and " if group.parity is not None else ""
        notes.append(
            f"{group.order - visited} of {group.order} states were not visited by "
            f"{len(states)} sequences, so {missing}shares of irreducible representations are "
            "missing; raise sequences"
        )
    irreps: tuple[Component, ...] = ()
    try:
        irreps = characters(group).components() if visited == group.order else ()
    except StatetraceError as error:
        notes.append(f"no shares of irreducible representations: {error}")
    paired = group.parity is not None and visited == group.order > 2
    return Setting(
        group,
        states,
        quotients,
        pairings(group) if paired else None,
        irreps,
        arrangements(group),
        permutations=spec.permutations,
        components=spec.components,
        points=spec.points,
        seed=spec.seed,
        device=where if where.type == "cuda" else "cpu",  # others may lack float64
    ), notes


def _accuracy(model: Any, task: WordProblem, drawn: Sequences) -> float:
    """Accuracy after the last action, on the first sequences."""
    sample = drawn[:_ANSWERED]
    predicted = answers(model, task, sample)[:, -1]
    return float((predicted == sample.states[:, -1]).mean())


def _noise_notes(measured: list[LayerGeometry]) -> list[str]:
    last = measured[-1]
    if last.between_p is None or last.between_p <= 0.05:
        return []
    return [
        f"the state means at layer {last.layer} are no further apart than under permuted labels "
        f"(p = {last.between_p:.2f}), so their geometry is noise"
    ]


def _arrays(
    measured: list[LayerGeometry], shared: Setting, layers: tuple[int, ...]
) -> dict[str, np.ndarray]:
    size = sum(layer.means.nbytes for layer in measured)
    saved = measured if size <= _MEANS_SAVED else measured[-2:]
    arrays = {
        "layers": np.array(layers),
        "counts": shared.counts,
        "point_states": shared.states[: shared.points],
        "means": np.stack([layer.means for layer in saved]).astype(np.float32),  # [., S, D]
        "means_layers": np.array([layer.layer for layer in saved]),
        "within": np.stack([layer.within for layer in measured]).astype(np.float32),  # [L', S]
    }
    if shared.arrangements:  # [2n, S], in the order of the names in the summary
        arrays["arrangements"] = np.stack(list(shared.arrangements.values())).astype(np.int16)
    for name in measured[0].arrays:
        arrays[name] = np.stack([layer.arrays[name] for layer in measured]).astype(np.float32)
    return arrays


def _summary(measured: list[LayerGeometry], shared: Setting) -> dict[str, Any]:
    """The numbers at the last layer, and the prism at its clearest layer."""
    last = measured[-1]
    summary: dict[str, Any] = {
        "group": shared.group.name,
        "sequences": len(shared.states),
        "states_visited": len(shared.visited),
        **last.summary,
    }
    if shared.arrangements:
        summary["arrangements"] = list(shared.arrangements)
    prisms = [layer for layer in measured if layer.prism is not None]
    if prisms:
        best = max(prisms, key=lambda layer: layer.prism["score"] if layer.prism else 0.0)
        summary |= {"best_layer": best.layer, "prism": best.prism, "prism_last": last.prism}
    plain: dict[str, Any] = _without_nan(summary)
    return plain


def _without_nan(value: Any) -> Any:
    """The same with None for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
