"""The shape that the states have inside the model (section 4.2 and appendices C.3 and D).

Purpose: the mean activation of every state at the last token, layer by layer: how much of it is
parity, which states pair up and whether they form the paper's triangular prism (prism.py), whether
they cluster by where one object is, how they look along principal components, and what share of
their variance lies in each irreducible representation of the group (groups/characters.py).

Cost: one forward pass over `sequences` sequences, and per layer about as much again for the
permuted labels. A 4-layer, width-64 model on S3, length 16: 2 to 3 s on one core.
Caveat: `null` is what states without any structure would show: the mean over permuted labels where
`p` is given (labels of all sequences; for the prism's pairing, among those of one parity), else
the share of dimensions. Means over few sequences per state carry noise that looks just like that,
so read shares only where `between_share` is well above its own null.

The table, one number per row: `layer` 0 is the embedding, l the output of block l.

| measure            | name                 | value                                               |
|--------------------|----------------------|-----------------------------------------------------|
| between_share      | state                | variance between states / variance of the points    |
| quotient_share     | parity, Z3, ...      | of the variance between states, between its cosets  |
| quotient_accuracy  | parity, Z3, ...      | points nearest to the mean of their own coset       |
| parity             | d_prime, margin      | separation along the parity direction               |
| prism              | score, pairing, ...  | the score and its factors: see prism.py             |
| pair_agreement     | all                  | pairs that the best of all matchings has too        |
| within_distance    | 123+213, all         | between the two states of a pair; all: the mean     |
| within_complement  | 123+213, all         | the same without the parity direction               |
| between_distance   | 123+213 231+132, all | between pair centres, without the parity direction  |
| angle              | 123+213 231+132      | between spokes as vectors, 120° in a prism          |
| line_angle         | 123+213 231+132      | between spokes as lines, the paper's 60°            |
| arrangement_share  | object 1, position 1 | of the variance between states, by the place where  |
|                    |                      | object 1 is; by the object that is at position 1    |
| cluster_distance   | object 1: 4-5        | of cluster means, in units of the mean one, for the |
|                    |                      | arrangement with the largest share                  |
| irrep_share        | sign, 4a, ...        | of the variance between states                      |
| explained_variance | 1, 2, 3              | of the points, along principal components           |
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.groups.characters import Component, characters
from statetrace.interventions import evaluating
from statetrace.lenses.parts.activations import residuals
from statetrace.lenses.parts.answers import answers, check_fits, device_of, unlearned
from statetrace.lenses.parts.geometry_rows import Rows
from statetrace.lenses.parts.layer_geometry import LayerGeometry, Setting, look_at_layer
from statetrace.lenses.parts.prism import pairings
from statetrace.lenses.parts.state_means import arrangements
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.models import anatomy
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem

_ANSWERED = 512  # sequences answered to see whether the model has learned the task
_MEANS_SAVED = 2**26  # bytes of state means that are saved for all layers
_FORWARD = 0.5  # share of the work, for the progress


@dataclass(frozen=True)
class GeometrySpec:
    """What to measure."""

    sequences: int = 4096
    """Sequences whose last token is looked at; some ten per state are needed."""
    length: int | None = None
    """Actions per sequence; by default the task's."""
    layers: tuple[int, ...] | None = None
    """Layers to look at: 0 is the embedding, l the output of block l; by default all."""
    quotients: tuple[str, ...] | None = None
    """Quotients of the group whose share is measured; by default all."""
    permutations: int = 1000
    """Times the labels are permuted for the null distribution; 0 for none."""
    components: int = 3
    """Principal components."""
    points: int = 500
    """Single points whose coordinates are saved beside those of the state means."""
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"sequences": 2, "permutations": 0, "components": 1, "points": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise StatetraceError(
                    f"{name} {getattr(self, name)} is too small; use {lowest} or more"
                )
        if self.layers is not None and not self.layers:
            raise StatetraceError("layers is empty; give at least one layer, or none for all")


def geometry(
    model: Any,
    task: WordProblem,
    spec: GeometrySpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """The geometry of the state means at every layer chosen."""
    spec = spec or GeometrySpec()
    length = task.length if spec.length is None else spec.length
    check_fits(model, task, length)
    layers = _layers(spec, anatomy(model).layers)
    drawn = task.draw(spec.sequences, spec.seed, length)
    states = drawn.states[:, -1].astype(np.int64)  # [n]
    setting, notes = _setting(task, spec, states, device_of(model))
    if len(drawn) < spec.sequences:
        notes.append(
            f"{len(drawn)} sequences of length {length} instead of {spec.sequences}: "
            "there are no more that were held out"
        )
    tokens = task.encode(torch.from_numpy(drawn.actions.astype(np.int64)))
    stream = residuals(
        model, tokens, [tokens.shape[1] - 1], done=lambda share: progress(_FORWARD * share)
    )  # [L + 1, n, 1, D]
    rows, found = Rows(), []
    for done, layer in enumerate(layers, start=1):
        points = stream[layer, :, 0].float().cpu().numpy()
        found.append(look_at_layer(points, layer, setting, rows))
        progress(_FORWARD + (1 - _FORWARD) * done / len(layers))
    accuracy = _accuracy(model, task, drawn)
    trouble = unlearned(accuracy, task.group.order, f"at length {length}")
    notes += [trouble] if trouble else []
    notes += _noise_notes(found)
    return LensResult(
        lens="geometry",
        spec=dataclasses.asdict(spec) | {"length": length, "layers": list(layers)},
        columns=rows.columns,
        arrays=_arrays(found, setting, layers),
        summary=_summary(found, setting) | {"length": length, "accuracy": accuracy},
        notes=tuple(notes),
    )


def _layers(spec: GeometrySpec, last: int) -> tuple[int, ...]:
    if spec.layers is None:
        return tuple(range(last + 1))
    for layer in spec.layers:
        if not 0 <= layer <= last:
            raise StatetraceError(
                f"the model has no layer {layer}; use 0 (the embedding) to {last} (the last block)"
            )
    return tuple(sorted(set(spec.layers)))


def _setting(
    task: WordProblem, spec: GeometrySpec, states: np.ndarray, where: torch.device
) -> tuple[Setting, list[str]]:
    """What is the same for all layers, and what a person should know about it."""
    group, notes = task.group, []
    visited = len(np.unique(states))
    if visited < 2:
        raise StatetraceError(
            f"all {len(states)} sequences of {group.name} end in one state; use a group with more "
            "than one element, longer sequences, or more of them"
        )
    quotients: tuple[Quotient, ...] = ()
    try:
        quotients = task.quotients(spec.quotients)
    except StatetraceError as error:
        if spec.quotients is not None:
            raise
        notes.append(f"shares of quotients are left out: {error}")
    if group.parity is None:
        notes.append(
            f"{group.name} has no parity: its rows, the pairs and the prism are absent; "
            "quotient_share tells about the quotients it has"
        )
    if visited < group.order:
        absent = "the pairs, the prism and " if group.parity is not None else ""
        notes.append(
            f"{group.order - visited} of {group.order} states were not visited by "
            f"{len(states)} sequences and are left out; {absent}the shares of irreducible "
            "representations need all of them: raise sequences"
        )
    irreps: tuple[Component, ...] = ()
    try:
        irreps = characters(group).components() if visited == group.order else ()
    except StatetraceError as error:
        notes.append(f"shares of irreducible representations are left out: {error}")
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
    """Of the states after the last action, on some of the sequences."""
    some = drawn[:_ANSWERED]
    with evaluating(model):
        said = answers(model, task, some)[:, -1]
    return float((said == some.states[:, -1]).mean())


def _noise_notes(found: list[LayerGeometry]) -> list[str]:
    last = found[-1]
    if last.between_p is None or last.between_p <= 0.05:
        return []
    return [
        f"the state means at layer {last.layer} are no further apart than those of permuted labels "
        f"(p = {last.between_p:.2f}): their shape there is noise"
    ]


def _arrays(
    found: list[LayerGeometry], setting: Setting, layers: tuple[int, ...]
) -> dict[str, np.ndarray]:
    size = sum(layer.means.nbytes for layer in found)
    kept = found if size <= _MEANS_SAVED else found[-2:]
    arrays = {
        "layers": np.array(layers),
        "counts": setting.counts,
        "point_states": setting.states[: setting.points],
        "means": np.stack([layer.means for layer in kept]).astype(np.float32),  # [., S, D]
        "means_layers": np.array([layer.layer for layer in kept]),
        "within": np.stack([layer.within for layer in found]).astype(np.float32),  # [L', S]
    }
    if setting.arrangements:  # [2n, S], in the order of the summary's names
        arrays["arrangements"] = np.stack(list(setting.arrangements.values())).astype(np.int16)
    for name in found[0].arrays:
        arrays[name] = np.stack([layer.arrays[name] for layer in found]).astype(np.float32)
    return arrays


def _summary(found: list[LayerGeometry], setting: Setting) -> dict[str, Any]:
    """The numbers at the last layer, and the prism where it is clearest."""
    last = found[-1]
    summary: dict[str, Any] = {
        "group": setting.group.name,
        "sequences": len(setting.states),
        "states_visited": len(setting.visited),
        "last_layer": last.layer,
        "between_share": last.between_share,
        "explained_variance": last.explained,
        "quotient_share": last.quotient_share,
        "quotient_accuracy": last.quotient_accuracy,
    }
    if last.irrep_share:
        summary["irrep_share"] = last.irrep_share
    if last.arrangement_share:
        summary["arrangement_share"] = last.arrangement_share
        summary["arrangements"] = list(setting.arrangements)
    prisms = [layer for layer in found if layer.prism is not None]
    if prisms:
        best = max(prisms, key=lambda layer: layer.prism["score"] if layer.prism else 0.0)
        summary |= {"best_layer": best.layer, "prism": best.prism, "prism_last": last.prism}
    plain: dict[str, Any] = _measured(summary)
    return plain


def _measured(value: Any) -> Any:
    """The same with None for what could not be measured: JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _measured(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_measured(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
