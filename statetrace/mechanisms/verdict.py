"""The verdict: which algorithm a model runs, with what probability, and each lens's evidence.

Every lens scores every algorithm. Patching, probing and depth measure a distance d to the
algorithm's prediction; their score is -n log(d + d0), the likelihood of n measurements that scatter
by an unknown amount (so that a trained model, which is far from all predictions, is judged by
ratios, as a compiled one is); d0 is the resolution of the measurement. Generalization, attention
and dynamics measure how clearly parity is separate from the state, and penalize the algorithms they
contradict. Scores are added and turned into probabilities; the weights are fitted on the
calibration set and stored, with their meaning, in weights.json.

docs/verdict.md explains where each number comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from statetrace.groups import Group
from statetrace.lenses.result import LensResult, folded
from statetrace.mechanisms import distances, registered
from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.mastery import by_length, has_learned, solved_length
from statetrace.mechanisms.sentences import (
    CLEAR_LEAD,
    SEPARATING,
    deciding,
    sentence,
    without_evidence,
)

MECHANISMS = ("sequential", "parallel", "associative", "parity-associative")
"""The built-in algorithms; registered ones follow them."""

MEASURED = ("patching", "depth", "probing")

MIXED = 0.5
"""Below this probability of the best algorithm the verdict is "mixed"."""

RARE = 0.1
"""Prior odds of the sequential and the parallel algorithm to the others: the paper found neither in
any of its dozens of trained models."""

SELDOM = ("sequential", "parallel")

CLEARLY = float(np.log(5))
"""A lens that favors another algorithm by this score, odds of 5 to 1, is named."""


@dataclass(frozen=True)
class LensWeights:
    """The weight of each lens; see weights.json and docs/verdict.md.

    Attributes:
        count: lens -> n in -n log(d + d0).
        floor: lens -> d0.
        against: lens -> penalty of an algorithm that the lens contradicts.
        lapse: share of verdicts that may be wrong for reasons no lens shows; it keeps the
            confidence below what a finite calibration set can support.
    """

    count: Mapping[str, float]
    floor: Mapping[str, float]
    against: Mapping[str, float]
    lapse: float


@cache
def calibrated() -> tuple[LensWeights, dict[str, Any]]:
    """The bundled weights, and the accuracy measured with them."""
    about = json.loads(files("statetrace.mechanisms").joinpath("weights.json").read_text())
    fields = (about[name] for name in ("count", "floor", "against", "lapse"))
    return LensWeights(*fields), about["measured"]


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    mechanism: the name of an algorithm, "mixed" or "unlearned".
    confidence: its probability; for "mixed" the probability that no algorithm fits, for "unlearned"
        1.
    probabilities: of each algorithm that exists for the group.
    evidence: lens -> what it measured, how it scored each algorithm, and a sentence.
    says: the verdict in one sentence.
    no_evidence: lens -> why it says nothing about the algorithm; not saved.
    """

    mechanism: str
    confidence: float
    probabilities: dict[str, float]
    evidence: dict[str, dict[str, Any]]
    says: str
    no_evidence: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As RUN/verdict.json has it."""
        return {
            "mechanism": self.mechanism,
            "confidence": round(self.confidence, 4),
            "probabilities": {k: round(p, 4) for k, p in self.probabilities.items()},
            "evidence": self.evidence,
            "says": self.says,
        }

    @property
    def sentences(self) -> dict[str, str]:
        """What each lens says, those without evidence after them, and the prior."""
        sentences = {lens: str(part["says"]) for lens, part in self.evidence.items()}
        sentences |= {lens: f"no evidence: {why}" for lens, why in self.no_evidence.items()}
        prior = {"prior": prior_sentence(self.probabilities)} if self.probabilities else {}
        return sentences | prior

    @property
    def decided(self) -> str:
        """The lenses that favor the most probable algorithm over the next, in one sentence; the
        prior may be among them."""
        scores = {lens: part["scores"] for lens, part in self.evidence.items() if "scores" in part}
        return deciding(scores | {"the prior": prior(self.probabilities)}, self.probabilities)

    @property
    def _title(self) -> str:
        if self.mechanism == "unlearned":
            return self.mechanism
        return f"{self.mechanism}, confidence {self.confidence:.2f}"

    def __repr__(self) -> str:
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        lines = [f"Verdict: {self._title} ({self.says})"]
        if ranked:
            lines.append("  " + ", ".join(f"{name} {share:.2f}" for name, share in ranked))
        lines += [f"  {lens}: {says}" for lens, says in self.sentences.items()]
        return folded(lines)

    def _repr_html_(self) -> str:
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{escape(name)} {share:.2f}" for name, share in ranked)
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(lens)}</th>"
            f"<td style='text-align:left'>{escape(says)}</td></tr>"
            for lens, says in self.sentences.items()
        )
        return (
            f"<p><b>{escape(self._title)}</b>: {escape(self.says)}</p><p>{shares}</p>"
            f"<table>{rows}</table>"
        )


def verdict(results: Mapping[str, LensResult], group: Group) -> Verdict:
    """The verdict from lens results, such as `collect_evidence` computes."""
    general = results["generalization"]
    if not has_learned(general):
        return _unlearned(general, group)
    evidence = Evidence.of(results, group)
    measured = measure_distances(evidence, group)
    weights = calibrated()[0]
    scores = score(measured, weights)
    probabilities = probable(scores, weights.lapse)
    best = max(probabilities, key=lambda name: probabilities[name])
    confidence = probabilities[best]
    parts = {
        lens: {
            "distances" if lens in MEASURED else "parity apart": _rounded(measured[lens]),
            "scores": _rounded(by_algorithm),
            "says": sentence(lens, measured[lens], by_algorithm, evidence),
        }
        for lens, by_algorithm in scores.items()
    }
    silent = without_evidence(scores, evidence)
    if confidence < MIXED:
        says = f"no algorithm explains the lens results; the nearest is {best}"
        return Verdict("mixed", 1.0 - confidence, probabilities, parts, says, silent)
    says = f"the model runs the {best} algorithm at length {evidence.length}"
    if evidence.length < evidence.trained:
        says += f", its solved length (it was trained at {evidence.trained})"
    says += _dissent(scores, probabilities)
    return Verdict(best, confidence, probabilities, parts, says, silent)


def measure_distances(evidence: Evidence, group: Group) -> dict[str, Any]:
    """The inputs of the scores: lens -> distance by algorithm, or how clearly parity is separate;
    the names of the algorithms; how registered ones treat parity."""
    algorithms = [
        name
        for name in MECHANISMS
        if not (name == "parallel" and not group.is_solvable())
        and not (name == "parity-associative" and evidence.quotient is None)
    ]
    candidates = registered.candidates(evidence, group)
    measured: dict[str, Any] = {"algorithms": [*algorithms, *candidates]}
    if candidates:
        measured["parity"] = {name: one.parity for name, one in candidates.items()}
    for lens in MEASURED:
        by_name = getattr(distances, lens)(evidence)
        if all(name in by_name for name in algorithms):
            measured[lens] = {name: by_name[name] for name in algorithms}
            measured[lens] |= {name: one.distances[lens] for name, one in candidates.items()}
    return measured | distances.separation(evidence)


def score(measured: Mapping[str, Any], weights: LensWeights) -> dict[str, dict[str, float]]:
    """lens -> algorithm -> what it adds to the algorithm's log-probability."""
    algorithms, treats = measured["algorithms"], _PARITY | measured.get("parity", {})
    scores = {}
    for lens in MEASURED:
        if lens in measured:
            scores[lens] = {
                name: -weights.count[lens]
                * float(np.log(measured[lens][name] + weights.floor[lens]))
                for name in algorithms
            }
    for lens in SEPARATING:
        if lens in measured:
            against = {name: _against(lens, treats[name], measured[lens]) for name in algorithms}
            scores[lens] = {name: -weights.against[lens] * against[name] for name in algorithms}
    return scores


_PARITY = {
    "sequential": registered.TOGETHER,
    "parallel": registered.COUNTED,
    "associative": registered.TOGETHER,
    "parity-associative": registered.FIRST,
}


def _against(lens: str, parity: str, apart: float) -> float:
    """How strongly a lens contradicts an algorithm with this treatment of parity, 0 to 1."""
    if lens == "dynamics":
        apart = min(apart / CLEAR_LEAD, 1.0)
    if parity == registered.FIRST:
        return 1.0 - apart
    if parity == registered.COUNTED:
        # it counts parity first, but what it counts next is correct whenever parity is
        return {"generalization": 0.5, "attention": 1.0 - apart, "dynamics": 0.5}[lens]
    return apart


def _dissent(scores: Mapping[str, Mapping[str, float]], probabilities: Mapping[str, float]) -> str:
    """Lenses that clearly favor another algorithm than the most probable one, as the end of a
    sentence. Of algorithms that a lens cannot distinguish, the more probable is named."""
    best = max(probabilities, key=lambda name: probabilities[name])
    against: dict[str, list[str]] = {}
    for lens, by_algorithm in scores.items():
        top = max(by_algorithm.values())
        if top - by_algorithm[best] > CLEARLY:
            alike = [name for name in by_algorithm if by_algorithm[name] > top - 1e-6]
            favored = max(alike, key=lambda name: probabilities[name])
            against.setdefault(favored, []).append(lens)
    parts = [f"{' and '.join(lenses)} alone would favor {name}" for name, lenses in against.items()]
    return f"; but {', '.join(parts)}" if parts else ""


def probable(scores: Mapping[str, Mapping[str, float]], lapse: float) -> dict[str, float]:
    """Algorithm -> probability, from the scores of all lenses and the prior."""
    names = list(next(iter(scores.values())))
    total = np.array([sum(of[name] for of in scores.values()) for name in names])
    total = total + np.array(list(prior(names).values()))
    odds = np.exp(total - total.max())
    shares = (1 - lapse) * odds / odds.sum() + lapse / len(names)
    return dict(zip(names, shares.tolist(), strict=True))


def prior(names: Iterable[str]) -> dict[str, float]:
    """Algorithm -> what the prior adds to its log-probability."""
    return {name: float(np.log(RARE)) if name in SELDOM else 0.0 for name in names}


def prior_sentence(names: Iterable[str]) -> str:
    """Which algorithms start out less probable than the others."""
    rare = " and ".join(name for name in names if name in SELDOM)
    return f"odds of {1 / RARE:.0f} to 1 against {rare}, which the paper found in no trained model"


def accuracy_on_trained_models() -> str:
    """How often the verdict was correct on trained models of the calibration set."""
    measured = calibrated()[1]["trained, never fitted to"]
    correct = round(measured["right"] * measured["models"])
    return f"{correct} of {measured['models']} verdicts on trained models were correct"


def _unlearned(general: LensResult, group: Group) -> Verdict:
    """The verdict "unlearned", with a sentence on what the model has learned instead."""
    accuracy, trained = general.summary["accuracy"], int(general.summary["training_length"])
    by_state = by_length(general, "state")[:trained]
    says = (
        f"the model has not learned the task: {by_state[-1]:.1%} of its states are correct at "
        f"length {len(by_state)} (chance {1 / group.order:.1%}), and {accuracy['state']:.1%} over "
        "all lengths, because short ones are easy"
    )
    quotients = [name for name in accuracy if name != "state"]
    learned = [name for name in quotients if solved_length(general, name) == trained]
    if learned:
        says += f"; it has learned {' and '.join(learned)} only"
    evidence = {"generalization": {"accuracy": accuracy, "says": says}}
    return Verdict("unlearned", 1.0, {}, evidence, says)


def _rounded(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: round(value, 4) for name, value in values.items()}
    return round(values, 4)
