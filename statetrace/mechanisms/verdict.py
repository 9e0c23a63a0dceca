"""The verdict: where a model lies on the map of mechanisms, and which algorithm that is.

Two lenses decide: depth (how many layers each link of the group's chain needs, by length) and
generalization (which part of a wrong answer is still correct). From them `MechanismMap` computes
the probability of each algorithm, of two at once ("mixed") and of none ("other"). Other lenses are
compared with the algorithms one by one, as a check; they do not change the verdict.

docs/verdict.md explains where each number comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.lenses.result import LensResult, folded
from statetrace.mechanisms import distances, registered, sentences
from statetrace.mechanisms.cutoff_verdict import UNDECIDED
from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.links import kept, links_of
from statetrace.mechanisms.mastery import by_length, has_learned, solved_length
from statetrace.mechanisms.mechanism_map import MECHANISMS, MechanismMap, calibrated, possible

COMPARED = ("patching", "depth", "probing")
"""Lenses whose results are compared with what each algorithm predicts."""


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    mechanism: the name of an algorithm, "mixed", "other", "undecided" or "unlearned".
    confidence: its probability; if undecided that of the most probable mechanism, if unlearned 1.
    probabilities: of each algorithm that exists for the group, of "mixed" and of "other".
    evidence: lens -> what it measured, and a sentence.
    says: the verdict in one sentence.
    links: how each link of the group's chain is computed, coarse to fine.
    hint: options with which the model may be read better, as a sentence.
    """

    mechanism: str
    confidence: float
    probabilities: dict[str, float]
    evidence: dict[str, dict[str, Any]]
    says: str
    links: list[dict[str, Any]] = field(default_factory=list)
    hint: str | None = None

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_dict`, also for files of older versions."""
        try:
            return Verdict(
                values["mechanism"],
                values["confidence"],
                values["probabilities"],
                values["evidence"],
                values["says"],
                values.get("links", []),
                values.get("hint"),
            )
        except KeyError as missing:
            raise StatetraceError(f"verdict.json has no {missing}; delete it") from None

    def to_dict(self) -> dict[str, Any]:
        """As RUN/verdict.json has it."""
        return {
            "mechanism": self.mechanism,
            "confidence": round(self.confidence, 4),
            "probabilities": {k: round(p, 4) for k, p in self.probabilities.items()},
            "links": self.links,
            "evidence": self.evidence,
            "says": self.says,
        } | ({} if self.hint is None else {"hint": self.hint})

    @property
    def sentences(self) -> dict[str, str]:
        """What each lens says."""
        return {lens: str(part["says"]) for lens, part in self.evidence.items()}

    @property
    def _title(self) -> str:
        if self.mechanism in ("unlearned", UNDECIDED):
            return self.mechanism
        return f"{self.mechanism}, confidence {self.confidence:.2f}"

    def __repr__(self) -> str:
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        lines = [f"Verdict: {self._title} ({self.says})"]
        if ranked:
            lines.append("  " + ", ".join(f"{name} {share:.2f}" for name, share in ranked))
        lines += [f"  {lens}: {says}" for lens, says in self.sentences.items()]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
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
    read = read_map(results, group)
    candidates = registered.candidates(evidence, group)
    measured = measure_distances(evidence, group, candidates)
    probabilities = registered.weigh(read.probabilities(group), candidates, measured)
    names = possible(probabilities)
    parts: dict[str, dict[str, Any]] = {"depth": {"says": sentences.depth(read)}}
    if read.boundaries:
        shares = {b.quotient: None if b.kept is None else round(b.kept, 4) for b in read.boundaries}
        says = sentences.generalization(read, evidence)
        parts["generalization"] = {"kept": shares, "says": says}
    for lens, by_name in measured.items():
        parts.setdefault(lens, {"says": sentences.nearest(lens, by_name)})
        parts[lens]["distances"] = {name: round(one, 4) for name, one in by_name.items()}
    parts |= sentences.reported(evidence)
    says = sentences.verdict(names, probabilities, read)
    if evidence.length < evidence.trained:
        says += f"; it was trained at length {evidence.trained}"
    links = sentences.links(read, evidence)
    mechanism = names[0] if len(names) == 1 else UNDECIDED
    return Verdict(mechanism, probabilities[names[0]], probabilities, parts, says, links)


def read_map(results: Mapping[str, LensResult], group: Group) -> MechanismMap:
    """The map of a model from the results of depth and generalization."""
    links = links_of(results["depth"])
    if not links:
        raise StatetraceError(
            "the depth lens has too few pairs with two correct answers; use more pairs, or a "
            "length that the model solves"
        )
    quotients = [link.name for link in links[:-1]]
    return MechanismMap.of(links, kept_by_quotient(results["generalization"], quotients))


def kept_by_quotient(general: LensResult, quotients: list[str]) -> dict[str, float | None]:
    chances = dict(zip(general.columns["what"], general.columns["chance"], strict=True))
    trained, n = int(general.summary["training_length"]), int(min(general.columns["n"]))
    order = round(1 / chances["state"])
    state = by_length(general, "state")
    return {
        name: kept(state, by_length(general, name), trained, n, order, round(order * chances[name]))
        for name in quotients
        if name in chances
    }


def measure_distances(
    evidence: Evidence, group: Group, candidates: registered.Candidates
) -> dict[str, dict[str, float]]:
    """Lens -> distance of its result from what each algorithm predicts; `candidates` are registered
    ones."""
    algorithms = [
        name
        for name in MECHANISMS
        if not (name == "parallel" and not group.is_solvable())
        and not (name == "parity-associative" and evidence.quotient is None)
    ]
    measured = {}
    for lens in COMPARED:
        by_name = getattr(distances, lens)(evidence)
        names = [name for name in algorithms if name in by_name]
        if names:
            measured[lens] = {name: by_name[name] for name in names}
            measured[lens] |= {n: own[lens] for n, own in candidates.items() if lens in own}
    return measured


def accuracy_on_trained_models() -> str:
    """How often the verdict was correct on trained models that no weight was fitted to."""
    measured = calibrated()[1]["fresh: trained"]
    correct, named = measured["named"]
    undecided = measured["undecided"][1]
    return (
        f"{correct} of {named} decided verdicts on trained models were correct; "
        f"{undecided} more were undecided"
    )


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
