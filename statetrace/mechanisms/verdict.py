"""The verdict: which algorithm a model runs, how sure that is, and what each lens contributed.

Every lens scores every algorithm. Patching, probing and depth measure a distance d to what the
algorithm predicts; their score is -n log(d + d0), the likelihood of n measurements that scatter by
an unknown amount (so that a trained model, which is far from all predictions, is judged by ratios,
as a compiled one is), d0 being the distance at which measurement itself is no longer exact.
Generalization, attention and dynamics say how clearly parity stands apart from the state, which
costs the algorithms that deny it. Scores are added and turned into probabilities; the weights come
from the calibration set (calibration.py) and are kept, with their meaning, in weights.json.

docs/verdict.md says where each number comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from statetrace.groups import Group
from statetrace.lenses.result import LensResult
from statetrace.mechanisms import distances
from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.mastery import LEARNED, mastered_length

MECHANISMS = ("sequential", "parallel", "associative", "parity-associative")
MEASURED = ("patching", "depth", "probing")
SEPARATING = ("generalization", "attention", "dynamics")

MIXED = 0.5
"""Below this probability of the best algorithm the verdict is "mixed": more speaks against it than
for it."""

RARE = 0.1
"""Odds, before looking, of the sequential and the parallel algorithm to the other two: the paper
found neither in any of its trained models, of which there are dozens."""

CLEARLY = float(np.log(5))
"""A lens whose score is better by this for another algorithm, odds of 5 to 1, is named."""

CLEAR_LEAD = 0.25
"""A lead of parity in training that leaves no doubt, as a share of what it could be: it was 0.19 or
more in all 111 parity-associative models of our studies and 0.05 or less in 50 of the 55
associative ones, and no verdict there had looked at training. The other five learned parity first
and seem to compose it (docs/lab-notes.md)."""


@dataclass(frozen=True)
class LensWeights:
    """How much each lens counts; see weights.json and docs/verdict.md.

    Attributes:
        count: lens -> n in -n log(d + d0).
        floor: lens -> d0.
        against: lens -> score lost by an algorithm that denies what the lens sees.
        lapse: share of verdicts that may be wrong for reasons no lens shows; it keeps the
            confidence below what a finite calibration set can support.
    """

    count: Mapping[str, float]
    floor: Mapping[str, float]
    against: Mapping[str, float]
    lapse: float


@cache
def calibrated() -> tuple[LensWeights, dict[str, Any]]:
    """The weights that ship with the package, and what was measured with them."""
    about = json.loads(files("statetrace.mechanisms").joinpath("weights.json").read_text())
    fields = (about[name] for name in ("count", "floor", "against", "lapse"))
    return LensWeights(*fields), about["measured"]


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    mechanism: one of MECHANISMS, "mixed" or "unlearned".
    confidence: its probability; for "mixed" that of no algorithm being the one, for "unlearned" 1.
    probabilities: of each algorithm that exists for the group.
    evidence: lens -> what it measured, how it scored each algorithm, and a sentence.
    says: a sentence on the whole.
    """

    mechanism: str
    confidence: float
    probabilities: dict[str, float]
    evidence: dict[str, dict[str, Any]]
    says: str

    def as_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "confidence": round(self.confidence, 4),
            "probabilities": {k: round(p, 4) for k, p in self.probabilities.items()},
            "evidence": self.evidence,
            "says": self.says,
        }


def verdict(results: Mapping[str, LensResult], group: Group) -> Verdict:
    """Judge from lens results, such as `collect_evidence` makes."""
    general = results["generalization"]
    if mastered_length(general) < min(LEARNED, int(general.summary["training_length"])):
        return _unlearned(general, group)
    evidence = Evidence.of(results, group)
    measured = measure(evidence, group)
    weights = calibrated()[0]
    scores = score(measured, weights)
    probabilities = probable(scores, weights.lapse)
    best = max(probabilities, key=lambda name: probabilities[name])
    sure = probabilities[best]
    told = {
        lens: {
            "distances" if lens in MEASURED else "parity apart": _rounded(measured[lens]),
            "scores": _rounded(of),
            "says": _sentence(lens, measured[lens], of, evidence),
        }
        for lens, of in scores.items()
    }
    if sure < MIXED:
        says = "no algorithm explains what the lenses show; the nearest is " + best
        return Verdict("mixed", 1.0 - sure, probabilities, told, says)
    says = f"it runs the {best} algorithm, at length {evidence.length}"
    return Verdict(best, sure, probabilities, told, says + _dissent(scores, probabilities))


def measure(evidence: Evidence, group: Group) -> dict[str, Any]:
    """Everything a score is made from: lens -> distances, or how clearly parity stands apart."""
    algorithms = [
        name
        for name in MECHANISMS
        if not (name == "parallel" and not group.is_solvable())
        and not (name == "parity-associative" and evidence.quotient is None)
    ]
    found: dict[str, Any] = {"algorithms": algorithms}
    for lens in MEASURED:
        of = getattr(distances, lens)(evidence)
        if all(name in of for name in algorithms):
            found[lens] = {name: of[name] for name in algorithms}
    return found | distances.separation(evidence)


def score(measured: Mapping[str, Any], weights: LensWeights) -> dict[str, dict[str, float]]:
    """lens -> algorithm -> what it adds to the algorithm's log-probability."""
    algorithms = measured["algorithms"]
    found = {}
    for lens in MEASURED:
        if lens in measured:
            found[lens] = {
                name: -weights.count[lens]
                * float(np.log(measured[lens][name] + weights.floor[lens]))
                for name in algorithms
            }
    for lens in SEPARATING:
        if lens in measured:
            denied = {name: _denies(lens, name, measured[lens]) for name in algorithms}
            found[lens] = {name: -weights.against[lens] * denied[name] for name in algorithms}
    return found


def _denies(lens: str, name: str, apart: float) -> float:
    """How much what the lens sees speaks against an algorithm, 0 to 1."""
    if lens == "dynamics":
        apart = min(apart / CLEAR_LEAD, 1.0)
    if name == "parity-associative":
        return 1.0 - apart
    if name == "parallel":
        # it counts parity first, but what it counts next is right whenever parity is
        return {"generalization": 0.5, "attention": 1.0 - apart, "dynamics": 0.5}[lens]
    return apart


def _dissent(scores: Mapping[str, Mapping[str, float]], probabilities: Mapping[str, float]) -> str:
    """Lenses that speak clearly for another algorithm than the most probable one, which the others
    outweigh; as the end of a sentence. Of algorithms that a lens cannot tell apart it names the
    more probable."""
    best = max(probabilities, key=lambda name: probabilities[name])
    against: dict[str, list[str]] = {}
    for lens, of in scores.items():
        alike = [name for name in of if of[name] > max(of.values()) - 1e-6]
        if max(of.values()) - of[best] > CLEARLY:
            other = max(alike, key=lambda name: probabilities[name])
            against.setdefault(other, []).append(lens)
    parts = [f"{' and '.join(lenses)} alone would say {name}" for name, lenses in against.items()]
    return f"; but {', '.join(parts)}" if parts else ""


def probable(scores: Mapping[str, Mapping[str, float]], lapse: float) -> dict[str, float]:
    """Algorithm -> probability, from every lens's scores and what is known beforehand."""
    names = list(next(iter(scores.values())))
    total = np.array([sum(of[name] for of in scores.values()) for name in names])
    total = total + np.log([RARE if name in ("sequential", "parallel") else 1.0 for name in names])
    odds = np.exp(total - total.max())
    shares = (1 - lapse) * odds / odds.sum() + lapse / len(names)
    return dict(zip(names, shares.tolist(), strict=True))


def _unlearned(general: LensResult, group: Group) -> Verdict:
    """A sentence that says what it has learned instead."""
    accuracy = general.summary["accuracy"]
    reach = general.summary["cutoff"]
    says = (
        f"it has not learned the task: {accuracy['state']:.1%} of its states are right, "
        f"{1 / group.order:.1%} would be by chance"
    )
    knows = [
        name
        for name in accuracy
        if name != "state" and reach[name]["reach"] >= int(general.summary["training_length"])
    ]
    if knows:
        says += f"; but it knows {' and '.join(knows)}, and nothing else"
    told = {"generalization": {"accuracy": accuracy, "says": says}}
    return Verdict("unlearned", 1.0, {}, told, says)


def _rounded(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: round(value, 4) for name, value in values.items()}
    return round(values, 4)


def _sentence(lens: str, measured: Any, scores: Mapping[str, float], evidence: Evidence) -> str:
    """What a lens contributed, in a few words."""
    order = sorted(scores, key=lambda name: -scores[name])
    if lens in SEPARATING:
        return _SEPARATE[lens](measured, evidence)
    first, second = order[0], (order[1] if len(order) > 1 else order[0])
    unit = " layers" if lens == "depth" else ""
    return (
        f"nearest to {first} ({measured[first]:.2f}{unit} away), then {second} "
        f"({measured[second]:.2f})"
    )


def _generalization(apart: float, evidence: Evidence) -> str:
    name = evidence.quotient
    reach = evidence.reach
    where = f"state right up to length {reach['state']}, {name} up to {reach[str(name)]}"
    if apart > 0.5:
        return f"{where}; where the state is wrong, {name} mostly is not"
    return f"{where}; where the state is wrong, so is {name}"


def _attention(apart: float, evidence: Evidence) -> str:
    assert evidence.head is not None
    score, chance, lost = evidence.head
    most = f" of at most {evidence.ceiling:.0f}%" if round(evidence.ceiling) > 100 else ""
    above = score - chance
    if above >= distances.HEAD:
        stands = f" and stands out (by chance {chance:.0f}%)"
    elif above > 0:
        stands = (
            f", {above:.0f} points above chance ({chance:.0f}%), where one that stands out has "
            f"{distances.HEAD:.0f}"
        )
    else:
        stands = f" and does not stand out (by chance {chance:.0f}%)"
    return (
        f"the best {evidence.quotient} head scores {score:.0f}%{most}{stands}; with its output set "
        f"to its mean {evidence.quotient} loses {100 * lost:.0f} points"
    )


def _dynamics(apart: float, evidence: Evidence) -> str:
    if apart > 0.5:
        return f"in training {evidence.quotient} came first"
    if apart > CLEAR_LEAD / 2:
        return f"in training {evidence.quotient} ran ahead, by {apart:.0%} of what it could"
    return f"in training {evidence.quotient} and state rose together"


_SEPARATE = {"generalization": _generalization, "attention": _attention, "dynamics": _dynamics}
