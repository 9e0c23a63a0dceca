"""The map: how each link of a group's chain is computed, and with what probability.

`MechanismMap.of` turns the curves of the depth lens and the model's errors (links.py) into four
probabilities: that a link is computed on its own, that it needs more layers for longer sequences,
that the layers grow with the length rather than its logarithm, and that two computations share the
logits. Known algorithms are combinations of these, so their probabilities are products; what is
left is "other". The weights are fitted on models whose algorithm is known (calibration/).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np

from statetrace.groups import Group
from statetrace.mechanisms.links import Link

MECHANISMS = "sequential", "parallel", "associative", "parity-associative", "composed-quotient"
"""The built-in algorithms; registered ones follow them."""

MIXED, OTHER = "mixed", "other"

DECIDED = 0.8
"""Probability from which a verdict names a single mechanism."""

LEAST = 0.3
"""Layers: a gap compares no fewer."""

TABLE = 5
"""Actions up to which a model may have learned all sequences by heart."""

SOFT_LAPSE = 0.12
"""Lapse, in addition to that of the weights, of a model whose pairs differ by a layer: how a
trained model computes is known less surely. Chosen in cross-validation."""

Weights = Mapping[str, float]
"""See docs/verdict.md; `fitted()` has the bundled ones."""


@cache
def calibrated() -> tuple[Weights, dict[str, Any]]:
    """The bundled weights, and the accuracy measured with them."""
    about = json.loads(files("statetrace.mechanisms").joinpath("weights.json").read_text())
    return about["weights"], about["measured"]


@dataclass(frozen=True)
class Boundary:
    """Between a quotient and what follows it in the chain.

    Attributes:
        quotient: its name.
        gap: how many times as many layers the next link needs, as a logarithm to base 2; the mean
            over lengths.
        kept: how often the quotient is correct where the state is wrong, from 0 (by chance) to 1;
            None where there are too few errors.
    """

    quotient: str
    gap: float
    kept: float | None


@dataclass(frozen=True)
class MechanismMap:
    """Attributes:
    links: coarse to fine, the state last.
    boundaries: one per quotient.
    length: the longest that was measured.
    own: for each quotient the probability that it is computed on its own.
    grows: for each link the probability that it needs more layers for longer sequences.
    linear: the probability that the layers of the rest grow with the length, if they grow.
    two: the probability that two computations share the logits.
    fits: the probability that the curves follow some law.
    """

    links: tuple[Link, ...]
    boundaries: tuple[Boundary, ...]
    length: int
    own: tuple[float, ...]
    grows: tuple[float, ...]
    linear: float
    two: float
    fits: float

    @staticmethod
    def of(
        links: tuple[Link, ...],
        kept: Mapping[str, float | None],
        weights: Weights | None = None,
    ) -> MechanismMap:
        """kept: by quotient, see Boundary."""
        w = calibrated()[0] if weights is None else weights
        boundaries = tuple(
            Boundary(link.name, gap(link, after), kept.get(link.name))
            for link, after in pairwise(links)
        )
        middles = [w["quotient_middle"]] * len(boundaries) + [w["growth_middle"]]
        grows = tuple(
            _sigmoid(growth_odds(link, middle, w))
            for link, middle in zip(links, middles, strict=True)
        )
        return MechanismMap(
            links,
            boundaries,
            int(max(links[-1].lengths)),
            own=tuple(_sigmoid(own_odds(one, soft(links), w)) for one in boundaries),
            grows=grows,
            linear=_sigmoid(linear_odds(links[_rest(grows)], w)),
            two=_sigmoid(w["split"] * (max(link.split for link in links) - w["split_middle"])),
            fits=_sigmoid(w["misfit"] * (w["misfit_middle"] - max(map(misfit, links)))),
        )

    @property
    def rest(self) -> Link:
        """The link after the first that grows most."""
        return self.links[_rest(self.grows)]

    def probabilities(self, group: Group, weights: Weights | None = None) -> dict[str, float]:
        """Of each algorithm that exists for the group, then "mixed" and "other"."""
        w = calibrated()[0] if weights is None else weights
        own, first = max(self.own, default=0.0), self.grows[0]
        rest = self.grows[_rest(self.grows)]
        composed, linear = rest * (1 - self.linear), rest * self.linear
        abelian, solvable = _traits(group)
        counts = own
        if abelian:  # it counts all links at once; at short lengths so does a lookup table
            counts = 1.0 if self.length > TABLE else max(own, 0.5)
        shares = {
            "sequential": (1 - own) * linear,
            "parallel": counts * (1 - first) * (1 - rest),
            "associative": (1 - own) * composed,
            "parity-associative": own * (1 - first) * composed,
            "composed-quotient": own * first * composed,
        }
        if not self.boundaries:
            shares = {name: shares[name] for name in ("sequential", "associative", "parallel")}
        if not solvable:
            del shares["parallel"]
        known = {name: share * self.fits * (1 - self.two) for name, share in shares.items()}
        known[MIXED] = self.two
        known[OTHER] = max(1.0 - sum(known.values()), 0.0)
        lapse = w["lapse"] + SOFT_LAPSE * min(soft(self.links), 1.0)
        return {name: (1 - lapse) * share + lapse / len(known) for name, share in known.items()}


def _rest(grows: tuple[float, ...]) -> int:
    return max(range(len(grows))[1:] or [0], key=grows.__getitem__)


def possible(probabilities: Mapping[str, float]) -> tuple[str, ...]:
    """The fewest mechanisms that together reach a probability of DECIDED, the most probable first.
    With more than one, the verdict is undecided."""
    ranked = sorted(probabilities, key=lambda name: -probabilities[name])
    total = np.cumsum([probabilities[name] for name in ranked])
    return tuple(ranked[: 1 + int((total < DECIDED - 1e-9).sum())])


@cache
def _traits(group: Group) -> tuple[bool, bool]:
    return group.is_abelian(), group.is_solvable()


def gap(link: Link, after: Link) -> float:
    both = np.intersect1d(link.lengths, after.lengths)
    if not len(both):
        return 0.0
    needed = [one.needed[np.isin(one.lengths, both)] for one in (link, after)]
    return float(np.mean(np.diff(np.log2(np.maximum(needed, LEAST)), axis=0)))


def soft(links: tuple[Link, ...]) -> float:
    """How much the pairs of the softest link differ."""
    return max(link.soft for link in links)


def own_odds(boundary: Boundary, soft: float, w: Weights) -> float:
    """Log-odds that the quotient is computed on its own."""
    kept = 0.0 if boundary.kept is None else boundary.kept - 0.5
    odds = w["own_bias"] + w["gap"] * float(np.clip(boundary.gap, -1, 2)) + w["kept"] * kept
    return odds / float(np.hypot(1, w["blur"] * soft))


UNCERTAIN = 0.3
"""Layers per doubling: a growth with this standard error counts about 0.7 times as much."""


def growth_odds(link: Link, middle: float, w: Weights) -> float:
    """Log-odds that the layers needed grow by more than `middle` per doubling."""
    slope, error = link.growth
    blur = np.hypot(error / UNCERTAIN, w["blur"] * link.soft)
    return w["growth"] * (slope - middle) / float(np.hypot(1, blur))


LAYER_PER_ACTION = 0.75
"""Layers added per action from which a law is as steep as that of the sequential algorithm, 1."""


def linear_odds(link: Link, w: Weights) -> float:
    """Log-odds that the layers grow with the length, and not with its logarithm."""
    flat = min(link.steepness - LAYER_PER_ACTION, 0.0)
    return w["linear"] * straightness(link) + w["linear_bias"] + w["steep"] * flat


def straightness(link: Link) -> float:
    """Log of the misfit of the logarithmic law over that of the linear one."""
    logarithmic, linear = (link.misfits[law] + link.tolerance for law in ("logarithmic", "linear"))
    return float(np.log(logarithmic / linear))


def misfit(link: Link) -> float:
    """Log of the distance from the nearest law, in units of what such a model may deviate."""
    nearest = min(link.misfits.values())
    return float(np.log((nearest + 1e-3) / link.tolerance))


def _sigmoid(odds: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(odds, -30, 30))))
