"""Statistics of points labelled by states: means, spread, axes, and variance explained.

The computations of the geometry lens, independent of models: `points` [n, D] are activations and
`states` [n] their states.

Cost: `permuted_grams` sums all n * D numbers once per permutation, on the given device; the rest is
a pass over the points and one eigendecomposition [D, D].
Caveat: a mean over few points is noisy, which looks like structure in every measure here; compare
with the permuted labels or the null column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import embedding_bag

from statetrace.groups import Group, arrange
from statetrace.groups.elements import permuted_objects

Array = NDArray[Any]  # of floats
Labels = NDArray[np.int64]

_NUMBERS_AT_ONCE = 2**20  # entries of the Gram matrices of one chunk


@dataclass(frozen=True)
class StateMeans:
    """The means of S states, some of which may not be visited.

    Attributes:
        means: [S, D], NaN for an unvisited state.
        counts: [S], points per state.
        within: [S], mean squared distance of the points of a state from their mean, or NaN.
        visited: [V], the visited states.
    """

    means: Array
    counts: Labels
    within: Array
    visited: Labels

    @property
    def between(self) -> float:
        """Squared distances of the means from the grand mean, each point counted once."""
        means = self.means[self.visited]
        counts = self.counts[self.visited][:, None]
        grand = (counts * means).sum(axis=0) / counts.sum()
        return float((counts * (means - grand) ** 2).sum())

    @property
    def between_share(self) -> float:
        """The share of the variance of the points that is between states."""
        inside = float((self.counts * np.nan_to_num(self.within)).sum())
        total = self.between + inside
        return self.between / total if total > 0 else float("nan")


def state_means(points: Array, states: Labels, order: int) -> StateMeans:
    counts = np.bincount(states, minlength=order)
    sums = _sums(points, states, order)
    with np.errstate(invalid="ignore"):  # 0/0 gives the NaN of unvisited states
        means = sums / counts[:, None]
        squares = ((points - means[states]) ** 2).sum(axis=1)
        within = np.bincount(states, squares, order) / counts
    return StateMeans(means, counts, within, np.flatnonzero(counts))


def permuted_grams(
    points: Array,
    states: Labels,
    permutations: int,
    seed: int,
    device: torch.device | str = "cpu",
    among: Labels | None = None,
) -> Iterator[tuple[Array, Array]]:
    """The state means under permuted labels, chunk by chunk: Gram matrices about the centroid
    [chunk, V, V] and `StateMeans.between` [chunk].

    `states` [n] are 0..V-1, each at least once. With `among` [n], such as the parity of the state,
    labels are permuted only among points with the same value.
    """
    counts = np.bincount(states)
    n, visited = len(states), len(counts)
    chunk = max(1, _NUMBERS_AT_ONCE // max(visited * visited, n))
    centred = points - points.mean(axis=0, dtype=np.float64)
    on_device = torch.as_tensor(centred.astype(np.float32), device=device)  # [n, D]
    kinds = np.zeros(n, dtype=np.int64) if among is None else among.astype(np.int64)
    permuted = _permutations(states.astype(np.int64).tobytes(), kinds.tobytes(), permutations, seed)
    for start in range(0, permutations, chunk):
        order = permuted[start : start + chunk]  # points in the order of their new states
        size = len(order)
        firsts = np.cumsum(np.tile(counts, size)) - np.tile(counts, size)
        means = embedding_bag(
            torch.as_tensor(order.ravel().astype(np.int64), device=device),
            on_device,
            torch.as_tensor(firsts, device=device),
            mode="mean",
        ).unflatten(0, (size, visited))  # [chunk, V, D]
        squares = means.square().sum(-1).double().cpu().numpy()  # about the grand mean, [chunk, V]
        means = means - means.mean(dim=1, keepdim=True)
        yield (means @ means.mT).double().cpu().numpy(), squares @ counts


@lru_cache(maxsize=4)  # all layers share them, and they take longer than the rest
def _permutations(states: bytes, kinds: bytes, permutations: int, seed: int) -> NDArray[np.int32]:
    """[permutations, n]: the points by state, permuted among those of one kind."""
    by_state = np.argsort(np.frombuffer(states, dtype=np.int64), kind="stable")
    kind_of = np.frombuffer(kinds, dtype=np.int64)[by_state]
    rng = np.random.default_rng([seed, 1])
    permuted = np.empty((permutations, len(by_state)), dtype=np.int32)
    for kind in np.unique(kind_of):
        place = np.flatnonzero(kind_of == kind)
        permuted[:, place] = rng.permuted(np.tile(by_state[place], (permutations, 1)), axis=1)
    permuted.setflags(write=False)
    return permuted


def share_explained(means: Array, classes: Labels) -> float:
    """The share of the variance between vectors [V, D] that is between the classes [V]."""
    centred = means - means.mean(axis=0)
    total = float((centred**2).sum())
    sizes = np.bincount(classes)
    explained = (
        (_sums(centred, classes, len(sizes)) ** 2).sum(axis=1) / np.maximum(sizes, 1)
    ).sum()
    return float(explained / total) if total > 0 else float("nan")


def class_distances(means: Array, classes: Labels, count: int) -> Array:
    """Distances of the mean vectors of the classes: [count, count]; NaN for an empty class."""
    with np.errstate(invalid="ignore"):
        centres = _sums(means, classes, count) / np.bincount(classes, minlength=count)[:, None]
    return np.asarray(np.linalg.norm(centres[:, None] - centres[None, :], axis=-1))


def arrangements(group: Group) -> dict[str, Labels]:
    """For a group of permutations (S_n from S3, A_n from A4 on) "object k", the position of object
    k, and "position k", the object at position k; each [order] with values 0..n-1. Empty for other
    groups."""
    count = permuted_objects(group)
    if not 3 <= count < group.order:
        return {}
    objects = list(range(count))
    held = np.array([arrange(label, objects, group.notation) for label in group.labels])
    where = np.argsort(held, axis=1)  # [order, object] -> position
    by_object = {f"object {k + 1}": where[:, k] for k in objects}
    return by_object | {f"position {k + 1}": held[:, k] for k in objects}


def principal_axes(
    points: Array, components: int, device: torch.device | str = "cpu"
) -> tuple[Array, Array]:
    """Principal axes [components, D] of points [n, D] and the share of variance along each."""
    centred = points - points.mean(axis=0, dtype=np.float64)
    on_device = torch.from_numpy(centred).to(device)
    eigen, vectors = torch.linalg.eigh(on_device.mT @ on_device)  # smallest first
    values = eigen.clamp(min=0).cpu().numpy()[::-1]
    axes = _signed(vectors.cpu().numpy().T[::-1][:components])
    total = values.sum()
    return axes, values[: len(axes)] / total if total > 0 else np.full(len(axes), np.nan)


def parity_axes(means: Array, parity: Labels) -> Array:
    """The axes of the paper's prism: the parity direction, and the two principal axes of the state
    means [V, D] in its orthogonal complement: [3, D]."""
    direction = means[parity == 1].mean(axis=0) - means[parity == 0].mean(axis=0)
    length = np.linalg.norm(direction)
    direction = direction / length if length > 0 else direction
    centred = means - means.mean(axis=0)
    rest = centred - np.outer(centred @ direction, direction)
    _, _, axes = np.linalg.svd(rest, full_matrices=False)
    return np.concatenate([direction[None], _signed(axes[:2])])


@dataclass(frozen=True)
class Separation:
    """The separation of classes, measured on points that were not used for the class means; NaN if
    a class is missing from one half of the points.

    Attributes:
        accuracy: share of points nearest to the mean of their class.
        d_prime: for two classes, the distance of the means in standard deviations within a class,
            along the line through them; NaN for more classes.
    """

    accuracy: float
    d_prime: float


def separation(points: Array, classes: Labels, count: int) -> Separation:
    """Cross-fitted over two halves of the points [n, D], classes [n] in 0..count-1."""
    halves = [slice(0, None, 2), slice(1, None, 2)]
    accuracy, d_prime = [], []
    for fitted, tested in (halves, halves[::-1]):
        counts = np.bincount(classes[fitted], minlength=count)
        with np.errstate(invalid="ignore"):
            centres = _sums(points[fitted], classes[fitted], count) / counts[:, None]  # [count, D]
        middle = centres.mean(axis=0)
        held_out, truth = points[tested] - middle, classes[tested]
        centres = centres - middle
        nearest = (held_out @ centres.T - (centres**2).sum(axis=1) / 2).argmax(axis=1)
        accuracy.append((nearest == truth).mean() if np.isfinite(centres).all() else np.nan)
        if count == 2:
            along = held_out @ (centres[1] - centres[0])
            sides = [along[truth == k] for k in (0, 1)]
            spread = np.sqrt(np.mean([side.var() if len(side) else np.nan for side in sides]))
            distance = np.diff([side.mean() if len(side) else np.nan for side in sides])[0]
            d_prime.append(distance / spread if spread > 0 else np.nan)
    return Separation(float(np.mean(accuracy)), float(np.mean(d_prime)) if d_prime else np.nan)


def _sums(points: Array, classes: Labels, count: int) -> Array:
    """Sums over the points [n, D] of each class: [count, D] in float64."""
    by_class = np.argsort(classes, kind="stable")
    present, starts = np.unique(classes[by_class], return_index=True)
    sums = np.zeros((count, points.shape[1]))
    sums[present] = np.add.reduceat(points[by_class], starts, axis=0, dtype=np.float64)
    return sums


def _signed(axes: Array) -> Array:
    """Fix the sign of axes: the largest entry of each is positive."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0)
