"""The sentences of a verdict: what each lens says, and which lenses decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from statetrace.mechanisms import distances
from statetrace.mechanisms.evidence import Evidence

SEPARATING = ("generalization", "attention", "dynamics")

EVEN = float(np.log(2))
"""A lens whose scores differ by less, odds of 2 to 1, does not decide between two algorithms."""

CLEAR_LEAD = 0.25
"""A clear lead of parity in training, as a share of the possible maximum: it was 0.19 or more in
all 111 parity-associative models of the studies and 0.05 or less in 50 of the 55 associative ones,
whose verdicts had not used it. The other five learned parity first and seem to compose it
(docs/lab-notes.md)."""


def sentence(lens: str, measured: Any, scores: Mapping[str, float], evidence: Evidence) -> str:
    """What a lens contributed."""
    if lens in SEPARATING:
        return _SEPARATE[lens](measured, evidence)
    ranked = sorted(scores, key=lambda name: -scores[name])
    unit = " layers" if lens == "depth" else ""
    listed = [f"{name} ({measured[name]:.2f})" for name in ranked]
    listed[0] = f"{ranked[0]} (distance {measured[ranked[0]]:.2f}{unit})"
    tied = [name for name in ranked if scores[ranked[0]] - scores[name] < EVEN]
    if len(tied) > 1:
        return f"does not decide between {_joined(listed[: len(tied)])}"
    return f"nearest to {', then '.join(listed[:2])}"


def deciding(scores: Mapping[str, Mapping[str, float]], probabilities: Mapping[str, float]) -> str:
    """The lenses that favor the most probable algorithm over the next; empty if none does."""
    if len(probabilities) < 2:
        return ""
    best, second = sorted(probabilities, key=lambda name: -probabilities[name])[:2]
    leads = {lens: by_name[best] - by_name[second] for lens, by_name in scores.items()}
    lenses = sorted((lens for lens in leads if leads[lens] >= EVEN), key=lambda lens: -leads[lens])
    verb = "favors" if len(lenses) == 1 else "favor"
    return f"{_joined(lenses)} {verb} {best} over {second}" if lenses else ""


def without_evidence(scores: Mapping[str, Any], evidence: Evidence) -> dict[str, str]:
    """Lens -> why it has no part in the verdict, for those that every verdict computes."""
    reasons = {
        "generalization": f"{evidence.cutoffs}; too few errors within the training length",
        "attention": "no head was scored",
    }
    if evidence.quotient is None:
        reasons = dict.fromkeys(reasons, "the group has no parity or other quotient")
    return {lens: reason for lens, reason in reasons.items() if lens not in scores}


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _generalization(apart: float, evidence: Evidence) -> str:
    rest = "mostly correct" if apart > 0.5 else "wrong too"
    return f"{evidence.cutoffs}; where the state is wrong, {evidence.quotient} is {rest}"


def _attention(apart: float, evidence: Evidence) -> str:
    assert evidence.head is not None
    score, chance, lost = evidence.head
    name = evidence.quotient
    clear = "this is one" if score - chance >= distances.HEAD else "this is not one"
    return (
        f"best {name} head: score {score / 100:.2f} (chance {chance / 100:.2f}; a clear {name} "
        f"head is {distances.HEAD / 100:.2f} above chance: {clear}); "
        + ablation(str(name), lost, evidence.control)
    )


def ablation(quotient: str, lost: float, control: float | None) -> str:
    """What the accuracy lost without the best head shows, next to that lost without a random one:
    the model needs the head if the loss is large and at least half of it is beyond the control."""
    text = f"with its output set to its mean, {quotient} accuracy drops by {lost:z.2f}"
    if control is None:
        return text
    needed = lost >= distances.LOST and lost >= 2 * control
    reading = "the model needs this head" if needed else "this does not show that it is needed"
    return f"{text} (with a random head's: {control:z.2f}), so {reading}"


def _dynamics(apart: float, evidence: Evidence) -> str:
    order = "was learned before" if apart > CLEAR_LEAD / 2 else "was learned together with"
    return f"{evidence.quotient} {order} the state (lead {apart:z.2f} of the possible maximum)"


_SEPARATE = {"generalization": _generalization, "attention": _attention, "dynamics": _dynamics}
