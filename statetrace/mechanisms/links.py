"""How a model computes each link of its group's chain of quotients, such as S4, S3, parity.

The depth lens measures at which layers each link is decided, by length (`Link`). From these curves
and the model's errors follow the quantities that a verdict weighs (`Features`):

- is a link computed on its own or together with the next? On its own it is decided in earlier
  layers, stays correct where the next one is wrong, and may be learned earlier.
- does it need more layers for longer sequences? Not if it is counted; if it is composed, a few more
  each time the length doubles, or with each action.
- are there two computations? Then all pairs are split between the clean and the corrupted answer in
  some layers: each computation has a share of the logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace.lenses.result import LensResult

Array = NDArray[np.float64]

ERRORS = 10
"""Wrong answers at a length needed to estimate in how many of them a quotient is correct."""

UNDECIDED, ALIKE = 0.05, 0.3
"""A vote is undecided if it lies at least UNDECIDED from both ends. If it deviates over pairs by at
most ALIKE times its distance from the nearer end, nearly all pairs are split alike."""

RESOLUTION = 0.05
"""Layers: the accuracy of the layers needed by a compiled model without noise."""


@dataclass(frozen=True)
class Link:
    """Attributes:
    name: of the quotient, or "state" for the last link.
    lengths: [m].
    needed: the layers needed at each length [m].
    error: their standard error over pairs [m].
    soft: how much pairs differ: the root of the summed variances of the votes of all layers, the
        mean over lengths.
    first, last: the layer in which the vote falls below a half, at the shortest and at the longest
        length.
    split: the share of undecided (length, layer) cells, counting at least one per length, in which
        nearly all pairs are split between the two runs.
    """

    name: str
    lengths: Array
    needed: Array
    error: Array
    soft: float
    first: int
    last: int
    split: float

    @cached_property
    def growth(self) -> tuple[float, float]:
        """Layers added per doubling of the length, with its standard error. A length needs at least
        as many as a shorter one: in trained models that compose, the curve often falls again."""
        if len(self.lengths) < 2:
            return 0.0, np.inf
        needed = np.maximum.accumulate(self.needed)
        x = np.log2(self.lengths)
        x = x - x.mean()
        slope = float(x @ needed / (x @ x))
        residual = needed - needed.mean() - slope * x
        free = max(len(x) - 2, 1)
        scatter = (residual @ residual) / free + float(np.mean(self.error**2)) + RESOLUTION**2
        return slope, float(np.sqrt(scatter / (x @ x)))

    @property
    def steepness(self) -> float:
        """Layers added per action."""
        n = self.lengths - self.lengths.mean()
        return float(n @ self.needed / (n @ n)) if len(n) > 1 else 0.0

    @cached_property
    def misfits(self) -> dict[str, float]:
        """Root mean square distance, in layers, from the best constant, linear and logarithmic law.
        The last is smooth up to some length, beyond which one layer composes all, or rises in steps
        from doubling to doubling, as in the programs."""
        n, constant = self.lengths, float(np.std(self.needed))
        if len(n) < 2:
            return dict.fromkeys(("constant", "linear", "logarithmic"), constant)
        smooth = [np.minimum(np.log2(n), np.log2(most)) for most in n[1:]]
        return {
            "constant": constant,
            "linear": _line_misfit(n, self.needed),
            "logarithmic": min(
                _steps_misfit(n, self.needed), *(_line_misfit(x, self.needed) for x in smooth)
            ),
        }

    @property
    def tolerance(self) -> float:
        """The misfit that a law leaves in a model that follows it: pairs of a trained model differ
        in the layers they need, and so do the lengths."""
        return RESOLUTION + SOFT * self.soft + float(np.sqrt(np.mean(self.error**2)))


DEPENDENT = 1.4
"""How much larger the deviation over pairs is than if the layers of a pair decided independently:
the mean of 37 trained models (calibration/data/stability.jsonl). Only for results that lack it."""

SOFT = 0.15
"""Misfit of a law, as a share of the deviation over pairs."""


def links_of(depth: LensResult) -> tuple[Link, ...]:
    """The chain, coarse to fine; links with too few pairs at some length are left out."""
    summary = depth.summary
    splits = summary.get("links") or _older_links(summary["layers_needed"])
    rows = depth.rows()
    links = []
    for name, split in splits.items():
        needed = zip(summary["lengths"], summary["layers_needed"][split], strict=True)
        lengths = [n for n, layers in needed if layers is not None]
        if lengths:
            deviation = [d for d in summary.get("deviation", {}).get(split, ()) if d is not None]
            of_split = [row for row in rows if row["split"] == split]
            links.append(_link(name, lengths, of_split, deviation))
    return tuple(links)


def _older_links(needed: Mapping[str, Sequence[float | None]]) -> dict[str, str]:
    """Results of older versions have pairs of one quotient, by their names."""
    for split in needed:
        if split.startswith("same "):
            quotient = split.removeprefix("same ")
            other = f"{'opposite' if quotient == 'parity' else 'different'} {quotient}"
            return {quotient: other, "state": split}
    return {"state": "all"}


def _link(
    name: str, lengths: list[int], rows: list[dict[str, Any]], deviation: list[float]
) -> Link:
    layers = 1 + max(row["layer"] for row in rows)
    mean, std, n = np.zeros((3, layers, len(lengths)))
    for row in rows:
        if row["length"] in lengths:
            at = row["layer"], lengths.index(row["length"])
            mean[at], std[at], n[at] = row["mean"], row["std"], row["n"]
    soft = np.sqrt((std**2).sum(0))  # as if the layers of a pair decided independently
    nearer_end = np.minimum(mean, 1 - mean)
    undecided = nearer_end > UNDECIDED
    alike = undecided & (std < ALIKE * nearer_end)
    shortest, longest = mean[:, 0], mean[:, -1]
    return Link(
        name=name,
        lengths=np.array(lengths, dtype=np.float64),
        needed=mean.sum(0),
        error=(np.array(deviation) if deviation else DEPENDENT * soft) / np.sqrt(n[0]),
        soft=float(soft.mean()),
        first=int((shortest < 0.5).argmax()),
        last=int((longest < 0.5).argmax()),
        split=float(alike.sum() / (undecided.sum() + len(lengths))),
    )


def _line_misfit(x: Array, y: Array) -> float:
    """Of the best line that does not fall."""
    centred = x - x.mean()
    slope = max(float(centred @ y) / max(float(centred @ centred), 1e-9), 0.0)
    return float(np.std(y - slope * centred))


def _steps_misfit(n: Array, y: Array) -> float:
    """Of the best steps that rise after each doubling and are level between."""
    step = np.ceil(np.log2(n)).astype(int)
    levels = np.bincount(step, y)[step] / np.bincount(step)[step]
    falls = np.minimum(np.diff(levels, prepend=levels[0]), 0.0)
    return float(np.sqrt(np.mean((y - levels) ** 2 + falls**2)))


def kept(
    state: Array, quotient: Array, trained: int, n: int, order: int, unknown: int
) -> float | None:
    """How often a quotient is correct where the state is wrong: 0 as often as for a random wrong
    state, 1 always. The mean over lengths with enough errors, so that no length silences the
    others; None if there is none.

    Beyond the training length both may fail only because those positions were never trained, so
    errors there count only if there are none before and the quotient stays correct.
    """
    by_luck = (unknown - 1) / (order - 1)
    wrong = 1 - state
    enough = wrong * n >= ERRORS
    share = ((quotient - state) / np.maximum(wrong, 1e-9) - by_luck) / (1 - by_luck)
    within, beyond = share[:trained][enough[:trained]], share[trained:][enough[trained:]]
    if len(within):
        return float(np.clip(within, 0, 1).mean())
    return float(min(beyond[0], 1)) if len(beyond) and beyond[0] > 0.5 else None
