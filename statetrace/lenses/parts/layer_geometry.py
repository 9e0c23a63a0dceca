"""The measurements of the geometry lens at one layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import torch

from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.groups.characters import Component, isotypic_shares
from statetrace.lenses.parts import prism
from statetrace.lenses.parts.geometry_rows import Rows, add_prism
from statetrace.lenses.parts.state_means import (
    Array,
    Labels,
    StateMeans,
    class_distances,
    parity_axes,
    permuted_grams,
    principal_axes,
    separation,
    share_explained,
    state_means,
)


@dataclass(frozen=True)
class Setting:
    """Inputs shared by all layers. n points, S states, V of them visited.

    Attributes:
        states: [n], the state of each point.
        quotients: the quotients to measure.
        among: the candidate pairings; None without parity or if a state is missing.
        irreps: the isotypic components of functions on the group; () if a state is missing.
        arrangements: of objects and positions: see state_means.arrangements.
        permutations, seed, device: of the permuted labels.
        components: principal components.
        points: how many points have their coordinates saved.
    """

    group: Group
    states: Labels
    quotients: tuple[Quotient, ...] = ()
    among: prism.Pairings | None = None
    irreps: tuple[Component, ...] = ()
    arrangements: dict[str, Labels] = field(default_factory=dict)
    permutations: int = 1000
    components: int = 3
    points: int = 500
    seed: int = 0
    device: torch.device | str = "cpu"

    @property
    def counts(self) -> Labels:
        """Points per state: [S]."""
        return np.bincount(self.states, minlength=self.group.order)

    @property
    def visited(self) -> Labels:
        return np.flatnonzero(self.counts)

    @property
    def parity(self) -> Labels | None:
        """[S], None without parity or if only states of one parity were visited."""
        parity = self.group.parity
        if parity is None or len(np.unique(parity[self.visited])) < 2:
            return None
        return parity.astype(np.int64)


@dataclass(frozen=True)
class LayerGeometry:
    """The results of a layer besides its rows; see geometry.py for the names.

    Attributes:
        means, within: [S, D] and [S], as in `StateMeans`.
        between_p: of the share between the states, under permuted labels.
        summary: the shares by measure and name; those of arrangements, if there are any, last.
    """

    layer: int
    means: Array
    within: Array
    between_p: float | None
    summary: dict[str, Any]
    prism: dict[str, Any] | None
    arrays: dict[str, Array]


def measure_layer(points: Array, layer: int, setting: Setting, rows: Rows) -> LayerGeometry:
    """Measure points [n, D], the activations of one layer."""
    points = points.astype(np.float64)
    if not np.isfinite(points).all():
        raise StatetraceError(
            f"some activations of layer {layer} are not finite; the model may have diverged, so "
            "analyze an earlier checkpoint"
        )
    averages = state_means(points, setting.states, setting.group.order)
    visited, n, states = averages.visited, len(points), len(averages.visited)
    between, scores, pairing = _permuted(points, setting)
    share = averages.between_share
    total = averages.between / share if share > 0 else np.inf
    p = rows.add("between_share", layer, "state", share, n, permuted=between / total)
    quotient_share: dict[str, float] = {}
    quotient_accuracy: dict[str, float] = {}
    summary: dict[str, Any] = {"last_layer": layer, "between_share": share}
    for quotient in setting.quotients:
        cosets, order = quotient.map.astype(np.int64), quotient.image.order
        dimensions = len(np.unique(cosets[visited])) - 1
        value = share_explained(averages.means[visited], cosets[visited])
        rows.add("quotient_share", layer, quotient.name, value, states, dimensions / (states - 1))
        accuracy = separation(points, cosets[setting.states], order).accuracy
        rows.add("quotient_accuracy", layer, quotient.name, accuracy, n, 1 / order)
        quotient_share[quotient.name], quotient_accuracy[quotient.name] = value, accuracy
    if setting.parity is not None:
        _add_parity(points, averages, layer, setting, rows)
    irrep_share = {}
    if setting.irreps:
        shares = isotypic_shares(setting.group, averages.means).tolist()
        for part, value in zip(setting.irreps, shares, strict=True):
            rows.add("irrep_share", layer, part.name, value, states, part.dimension / (states - 1))
            irrep_share[part.name] = value
    axes, explained = principal_axes(points, setting.components, setting.device)
    for number, value in enumerate(explained, start=1):
        rows.add("explained_variance", layer, str(number), value, n)
    arrays = _coordinates(points, averages, axes, setting)
    summary |= {"explained_variance": explained.tolist(), "quotient_share": quotient_share}
    summary |= {"quotient_accuracy": quotient_accuracy}
    summary |= {"irrep_share": irrep_share} if irrep_share else {}
    if setting.arrangements:
        arrangement_share = _add_arrangements(averages, layer, setting, rows, arrays)
        summary["arrangement_share"] = arrangement_share
    shape = None
    if setting.among is not None:
        null = {"score": scores, "pairing": pairing}
        shape = add_prism(averages.means, layer, setting.among, setting.group, null, rows)
        arrays["prism_null"] = scores
    return LayerGeometry(layer, averages.means, averages.within, p, summary, shape, arrays)


def _permuted(points: Array, setting: Setting) -> tuple[Array, Array, Array]:
    """Under permuted labels, [permutations] each: variance between the states, prism scores, and
    the pairing factor. For the latter, labels are permuted within each parity, so that a layer that
    only encodes parity does not pass for one with pairs."""
    _, labels = np.unique(setting.states, return_inverse=True)
    between, scores, pairing = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    how = (setting.permutations, setting.seed, setting.device)
    for grams, squares in permuted_grams(points, labels, *how):
        between.append(squares)
        if setting.among is not None:
            scores.append(prism.score(grams, setting.among).score)
    if setting.among is not None and setting.parity is not None:
        for grams, _ in permuted_grams(points, labels, *how, setting.parity[setting.states]):
            pairing.append(prism.score(grams, setting.among).pairing)
    return np.concatenate(between), np.concatenate(scores), np.concatenate(pairing)


def _add_parity(
    points: Array, averages: StateMeans, layer: int, setting: Setting, rows: Rows
) -> None:
    """d_prime: between single points, on the half not used for the direction. margin: between the
    nearest states of different parity (negative if they overlap)."""
    parity = setting.parity
    assert parity is not None
    separated = separation(points, parity[setting.states], 2)
    rows.add("parity", layer, "d_prime", separated.d_prime, len(points), 0.0)
    visited = averages.visited
    direction = parity_axes(averages.means[visited], parity[visited])[0]
    along = averages.means[visited] @ direction
    spread = np.sqrt((((points - averages.means[setting.states]) @ direction) ** 2).mean())
    if spread > 0:
        gap = along[parity[visited] == 1].min() - along[parity[visited] == 0].max()
        rows.add("parity", layer, "margin", float(gap / spread), len(visited))


def _coordinates(
    points: Array, averages: StateMeans, axes: Array, setting: Setting
) -> dict[str, Array]:
    """State means [S, .] and some points [P, .] along principal components and, with parity, along
    the parity direction and two axes of its complement."""
    centre = points.mean(axis=0)
    some = points[: setting.points]
    views = {"pca": axes}
    if setting.parity is not None:
        visited = averages.visited
        views["decomposition"] = parity_axes(averages.means[visited], setting.parity[visited])
    arrays = {}
    for name, view in views.items():
        arrays[f"{name}_means"] = (averages.means - centre) @ view.T
        arrays[f"{name}_points"] = (some - centre) @ view.T
        if name == "decomposition":
            arrays["decomposition_errors"] = _errors((points - centre) @ view.T, setting)
    return arrays


def _errors(points: Array, setting: Setting) -> Array:
    """Standard errors of the state means along axes [S, .] from points [n, .]; NaN for states that
    were visited less than twice."""
    order = setting.group.order
    along = [state_means(axis[:, None], setting.states, order).within for axis in points.T]
    left = np.maximum(setting.counts - 1.0, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt(np.stack(along, axis=1) / left[:, None]))


def _add_arrangements(
    averages: StateMeans, layer: int, setting: Setting, rows: Rows, arrays: dict[str, Array]
) -> dict[str, float]:
    """The share of each arrangement, and the cluster distances of the one that explains most."""
    visited = averages.visited
    means = averages.means[visited]
    count = len(setting.arrangements) // 2
    shares, distances = {}, {}
    for name, classes in setting.arrangements.items():
        null = (len(np.unique(classes[visited])) - 1) / (len(visited) - 1)
        shares[name] = share_explained(means, classes[visited])
        rows.add("arrangement_share", layer, name, shares[name], len(visited), null)
        distances[name] = class_distances(means, classes[visited], count)
    arrays["cluster_distances"] = np.stack(list(distances.values()))  # [2 * count, count, count]
    best = max(shares, key=lambda name: np.nan_to_num(shares[name], nan=-1.0))
    apart = distances[best][np.triu_indices(count, 1)]
    mean = apart[np.isfinite(apart)].sum() / max(np.isfinite(apart).sum(), 1)
    for i, j in combinations(range(count), 2):
        value = distances[best][i, j] / mean if mean > 0 else np.nan
        rows.add("cluster_distance", layer, f"{best}: {i + 1}-{j + 1}", value, len(visited))
    return shares
