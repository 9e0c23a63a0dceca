"""Linear probes for every layer, target and subset of the rows at once.

Purpose: multinomial logistic regression equivalent to scikit-learn's LogisticRegression(C=...), on
the device of the features, without a copy of the features per target or subset.

`fit` uses the features unchanged. The lens standardizes them first (`standardise`: mean 0 and
variance 1 over the training rows of a layer, with the same scaling for held-out rows), because the
penalty treats all features equally and some features of a residual stream are a hundred times
larger than others. For comparison with scikit-learn, use the same features.

Cost: see logistic.py. Problems are solved in blocks that fit the cache of a CPU or a share of the
memory of a GPU. 13 layers × 768 features × 20,000 rows, two targets: benchmarks/probing.py.
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
from statetrace.lenses.specs import TOLERANCE

BLOCK_BYTES = {"cpu": 2**27, "cuda": 2**33}
"""Memory for the problems of one block."""


@dataclass(frozen=True)
class Probes:
    """Fitted probes of L layers on S disjoint subsets of the rows, for G targets.

    Attributes:
        classes: number of classes of each target; their columns are concatenated, K in total.
        weights: [L, S, K, D].
        intercepts: [L, S, K]; -inf for a class that does not occur, which is never predicted.
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
        """Accuracy and mean probability of the true class, both [L, S] in float64.

        features [L, M, D] are held-out rows; labels [M] or [L, M].
        """
        labels = _per_layer(labels, len(features)).long()
        accuracy, probability = [], []
        for layer in range(len(features)):  # all layers at once may not fit into memory
            probes = self._layer(layer)
            p = probes._probabilities(features[layer : layer + 1], target)[0]  # [S, classes, M]
            true = labels[layer].expand(len(p), 1, -1)
            p_true = p.gather(1, true)
            # ties go to the first class, as with argmax, which is several times slower here
            rank = torch.arange(p.shape[1], device=p.device)[:, None]
            above = (p > p_true) | ((p == p_true) & (rank < true))
            accuracy.append((~above.any(1, keepdim=True)).double().mean((1, 2)))
            probability.append(p_true.double().mean((1, 2)))
        return torch.stack(accuracy), torch.stack(probability)

    def _probabilities(self, features: Tensor, target: int) -> Tensor:
        """[L, M, D] -> [L, S, classes, M]."""
        columns = slice(sum(self.classes[:target]), sum(self.classes[: target + 1]))
        weights, intercepts = self.weights[:, :, columns], self.intercepts[:, :, columns]
        with _exact_products():
            logits = weights.flatten(1, 2) @ features.to(weights.dtype).transpose(1, 2)
        return logistic.softmax(logits.unflatten(1, weights.shape[1:3]) + intercepts[..., None])

    def _layer(self, layer: int) -> Probes:
        fitted = (self.weights, self.intercepts, self.iterations, self.converged)
        return Probes(self.classes, *(tensor[layer : layer + 1] for tensor in fitted))


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
        features: [L, N, D], used unchanged.
        labels: for each target whole numbers from 0, [N] or [L, N].
        classes: number of classes of each target. Classes that do not occur are left out, as in
            scikit-learn.
        subsets: the rows are split into this many consecutive parts of equal size, fitted
            separately.
        C: inverse regularization strength, as in scikit-learn.
        tolerance: largest entry of the gradient of the mean loss at which a fit ends.
    """
    layers, rows, width = _checked(features, labels, classes, subsets, C)
    if not features.dtype.is_floating_point or features.dtype.itemsize < 4:
        features = features.float()
    per_layer = [_per_layer(target, layers).to(features.device).long() for target in labels]
    stacked = torch.stack(per_layer, dim=1)  # [L, G, N]
    each = rows // subsets
    # [L * S, G, n]
    split = stacked.unflatten(-1, (subsets, each)).transpose(1, 2).flatten(0, 1)
    problems = features.unflatten(1, (subsets, each))  # [L, S, n, D], a view
    size = _block(each, width, sum(classes), features)
    solutions, settings = [], (tuple(classes), C, tolerance, max_iterations)
    with _exact_products():
        for start in range(0, layers * subsets, size):
            block = slice(start, min(start + size, layers * subsets))
            solutions.append(logistic.solve(_problems(problems, block), split[block], *settings))
    theta, iterations, converged = (
        torch.cat([getattr(part, name) for part in solutions]).unflatten(0, (layers, subsets))
        for name in ("theta", "iterations", "converged")
    )
    return Probes(tuple(classes), theta[..., :-1], theta[..., -1], iterations, converged)


def standardise(train: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale every feature of [L, N, D] by the training rows of its layer, in place, and
    the others [L, M, D] by the same numbers. Returns the means and the scale factors, [L, 1, D]
    each. A constant feature becomes 0."""
    means, scales = [], []
    # one layer at a time, because std_mean copies
    for layer in range(len(train)):
        deviation, mean = torch.std_mean(train[layer], dim=0, correction=0)
        # below this, the variation is rounding error of a constant
        least = 8 * torch.finfo(train.dtype).eps * mean.abs()
        scale = torch.where(deviation > least, 1 / deviation, 0.0)
        for tensor in (train, *others):
            tensor[layer].sub_(mean).mul_(scale)
        means.append(mean)
        scales.append(scale)
    return torch.stack(means)[:, None], torch.stack(scales)[:, None]


def _problems(features: Tensor, block: slice) -> Tensor:
    """[L, S, n, D] -> the problems of the block [P, n, D]; a view unless the block spans layers
    that are not contiguous in memory."""
    subsets = features.shape[1]
    first, last = block.start // subsets, (block.stop - 1) // subsets
    part = features[first : last + 1].flatten(0, 1)
    return part[block.start - first * subsets : block.stop - first * subsets]


def _block(rows: int, width: int, columns: int, features: Tensor) -> int:
    """The number of problems per block."""
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
        raise StatetraceError(f"C {C} must be above 0")
    if subsets < 1 or rows % subsets or rows < subsets:
        raise StatetraceError(
            f"{rows} rows cannot be split into {subsets} equal subsets; leave some rows out"
        )
    if len(labels) != len(classes) or not labels:
        raise StatetraceError(
            f"{len(labels)} targets have {len(classes)} numbers of classes; use one per target"
        )
    for number, (target, count) in enumerate(zip(labels, classes, strict=True)):
        if target.shape not in ((rows,), (layers, rows)):
            raise StatetraceError(
                f"labels of shape {tuple(target.shape)} do not match {layers} layers of {rows} "
                f"rows; use [{rows}] or [{layers}, {rows}]"
            )
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= count:
            raise StatetraceError(
                f"target {number} has the label {low if low < 0 else high}; "
                f"its {count} classes are 0 to {count - 1}"
            )
    if not bool(torch.isfinite(features).all()):
        raise StatetraceError(
            "some features are infinite or not a number; the model has diverged, or its "
            "activations do not fit their dtype"
        )
    return layers, rows, width


@contextmanager
def _exact_products() -> Iterator[None]:
    """Full float32 products: with TensorFloat-32, which training may have enabled, gradients are
    too imprecise for the tolerance."""
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        torch.set_float32_matmul_precision(before)
