"""Linear probes, all of them at once: every layer, every target and every subset of the rows.

Purpose: multinomial logistic regression as scikit-learn's LogisticRegression(C=...) has it, on the
device the features are on, without a copy of the features per target or subset.

`fit` takes the features as they are. The lens standardises them first (`standardise`: each feature
to mean 0 and variance 1 over all training rows of its layer, the held-out rows with the same
numbers), because the penalty treats all features alike and a residual stream has some that are a
hundred times as large as others. Whoever compares with scikit-learn gives it the same features.

Cost: see logistic.py. Problems are worked on in blocks that fit the cache of a CPU, or a share of a
GPU's memory. 13 layers × 768 features × 20,000 rows, two targets: benchmarks/probing.py.
Caveat: float32 unless the features are float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from statetrace.errors import StatetraceError
from statetrace.lenses.parts import logistic

BLOCK_BYTES = {"cpu": 2**27, "cuda": 2**33}
"""Memory for the problems that are worked on at the same time."""

TOLERANCE = 1e-4
"""scikit-learn's default. Accuracies are then within a few tenths of a point of where they end."""


@dataclass(frozen=True)
class Probes:
    """Fitted probes of L layers on S disjoint subsets of the rows, for G targets.

    Attributes:
        classes: number of classes of each target; their columns stand side by side, K in all.
        weights: [L, S, K, D].
        intercepts: [L, S, K]; -inf for a class that never occurred, which is then never predicted.
        iterations, converged: [L, S, G].
    """

    classes: tuple[int, ...]
    weights: Tensor
    intercepts: Tensor
    iterations: Tensor
    converged: Tensor

    def probabilities(self, features: Tensor, target: int = 0) -> Tensor:
        """features [L, M, D] -> [L, S, M, classes of the target]."""
        return self._probabilities(features, target).transpose(2, 3)

    def predictions(self, features: Tensor, target: int = 0) -> Tensor:
        """features [L, M, D] -> the most probable class, [L, S, M]."""
        return self.probabilities(features, target).argmax(-1)

    def score(self, features: Tensor, labels: Tensor, target: int = 0) -> tuple[Tensor, Tensor]:
        """Accuracy and mean probability of the right answer, both [L, S] in float64.

        features [L, M, D] are rows the probes have not seen; labels [M] or [L, M].
        """
        labels = _per_layer(labels, len(features)).long()
        accuracy, probability = [], []
        for layer in range(len(features)):  # S times all classes of all layers may be too much
            one = self._layer(layer)
            p = one._probabilities(features[layer : layer + 1], target)[0]  # [S, classes, M]
            right = labels[layer].expand(len(p), 1, -1)
            given = p.gather(1, right)
            # the first of equals, as argmax would have it, which is several times slower here
            rank = torch.arange(p.shape[1], device=p.device)[:, None]
            above = (p > given) | ((p == given) & (rank < right))
            accuracy.append((~above.any(1, keepdim=True)).double().mean((1, 2)))
            probability.append(given.double().mean((1, 2)))
        return torch.stack(accuracy), torch.stack(probability)

    def _probabilities(self, features: Tensor, target: int) -> Tensor:
        """[L, M, D] -> [L, S, classes, M]."""
        columns = slice(sum(self.classes[:target]), sum(self.classes[: target + 1]))
        weights, intercepts = self.weights[:, :, columns], self.intercepts[:, :, columns]
        with _exact_products():
            logits = weights.flatten(1, 2) @ features.to(weights.dtype).transpose(1, 2)
        return logistic.softmax(logits.unflatten(1, weights.shape[1:3]) + intercepts[..., None])

    def _layer(self, layer: int) -> Probes:
        one = slice(layer, layer + 1)
        fitted = (self.weights, self.intercepts, self.iterations, self.converged)
        return Probes(self.classes, *(tensor[one] for tensor in fitted))


def fit(
    features: Tensor,
    labels: Sequence[Tensor],
    classes: Sequence[int],
    *,
    subsets: int = 1,
    C: float = 1.0,
    tolerance: float = TOLERANCE,
    max_iterations: int = 1000,
) -> Probes:
    """Fit a probe for every layer, target and subset.

    Args:
        features: [L, N, D]; nothing is done to them.
        labels: for each target whole numbers from 0, [N] or, where layers differ, [L, N].
        classes: for each target how many classes it has. One that does not occur is left out, as
            scikit-learn would.
        subsets: the rows are cut into so many consecutive parts of equal size, each fitted alone.
        C: inverse strength of the penalty, as in scikit-learn.
        tolerance: largest entry of the gradient of the mean loss at which a fit ends.
    """
    layers, rows, width = _checked(features, labels, classes, subsets, C)
    if not features.dtype.is_floating_point or features.dtype.itemsize < 4:
        features = features.float()
    per_layer = [_per_layer(target, layers).to(features.device).long() for target in labels]
    stacked = torch.stack(per_layer, dim=1)  # [L, G, N]
    each = rows // subsets
    # [L * S, G, n]
    parted = stacked.unflatten(-1, (subsets, each)).transpose(1, 2).flatten(0, 1)
    problems = features.unflatten(1, (subsets, each))  # [L, S, n, D], a view
    size = _block(each, width, sum(classes), features)
    found = []
    with _exact_products():
        for start in range(0, layers * subsets, size):
            block = slice(start, min(start + size, layers * subsets))
            found.append(
                logistic.solve(
                    _problems(problems, block),
                    parted[block],
                    tuple(classes),
                    C,
                    tolerance,
                    max_iterations,
                )
            )
    theta, iterations, converged = (
        torch.cat([getattr(part, name) for part in found]).unflatten(0, (layers, subsets))
        for name in ("theta", "iterations", "converged")
    )
    return Probes(tuple(classes), theta[..., :-1], theta[..., -1], iterations, converged)


def standardise(train: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale every feature of [L, N, D] by the training rows of its layer, in place, and
    the others ([L, M, D]) by the same numbers, which are returned: what was subtracted, and what
    was multiplied with, [L, 1, D] each. A feature that does not vary becomes 0."""
    means, scales = [], []
    # one layer at a time: var_mean works on a copy
    for layer in range(len(train)):
        deviation, mean = torch.std_mean(train[layer], dim=0, correction=0)
        # below this, what varies is the rounding of a constant
        least = 8 * torch.finfo(train.dtype).eps * mean.abs()
        scale = torch.where(deviation > least, 1 / deviation, 0.0)
        for tensor in (train, *others):
            tensor[layer].sub_(mean).mul_(scale)
        means.append(mean)
        scales.append(scale)
    return torch.stack(means)[:, None], torch.stack(scales)[:, None]


def _problems(features: Tensor, block: slice) -> Tensor:
    """[L, S, n, D] -> those numbered by the block [P, n, D]; a view unless the block spans layers
    that do not lie next to each other in memory."""
    subsets = features.shape[1]
    first, last = block.start // subsets, (block.stop - 1) // subsets
    part = features[first : last + 1].flatten(0, 1)
    return part[block.start - first * subsets : block.stop - first * subsets]


def _block(rows: int, width: int, columns: int, features: Tensor) -> int:
    """How many problems to work on together."""
    numbers = rows * width + 6 * rows * columns + 2 * logistic.MEMORY * columns * (width + 1)
    need = numbers * features.dtype.itemsize + 3 * 8 * (width + 1) ** 2
    have = BLOCK_BYTES.get(features.device.type, BLOCK_BYTES["cuda"])
    return max(1, have // need)


def _per_layer(labels: Tensor, layers: int) -> Tensor:
    """[N] or [L, N] -> [L, N]."""
    return labels.expand(layers, -1) if labels.dim() == 1 else labels


def _checked(
    features: Tensor, labels: Sequence[Tensor], classes: Sequence[int], subsets: int, C: float
) -> tuple[int, int, int]:
    layers, rows, width = features.shape
    if not C > 0:
        raise StatetraceError(f"C = {C} is no strength of a penalty; use a number above 0")
    if subsets < 1 or rows % subsets or rows < subsets:
        raise StatetraceError(
            f"{rows} rows cannot be cut into {subsets} equal subsets; leave some rows out"
        )
    if len(labels) != len(classes) or not labels:
        raise StatetraceError(
            f"{len(labels)} targets with {len(classes)} numbers of classes; give one for each"
        )
    for target, (given, number) in enumerate(zip(labels, classes, strict=True)):
        if given.shape not in ((rows,), (layers, rows)):
            raise StatetraceError(
                f"labels of shape {tuple(given.shape)} do not go with {layers} layers of {rows} "
                f"rows; use [{rows}] or [{layers}, {rows}]"
            )
        low, high = int(given.min()), int(given.max())
        if low < 0 or high >= number:
            raise StatetraceError(
                f"target {target} has the label {low if low < 0 else high}; "
                f"its {number} classes are 0 to {number - 1}"
            )
    if not bool(torch.isfinite(features).all()):
        raise StatetraceError(
            "some features are infinite or not a number; the model has diverged, or its "
            "activations do not fit their dtype"
        )
    return layers, rows, width


@contextmanager
def _exact_products() -> Iterator[None]:
    """Full float32 products: with TensorFloat-32, which training may have switched on, gradients
    are too coarse for the tolerance."""
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        torch.set_float32_matmul_precision(before)
