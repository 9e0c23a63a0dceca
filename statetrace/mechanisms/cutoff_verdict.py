"""The paper's early verdict, from generalization alone, as in section 5 after 10,000 steps.

State and parity fail at the same length: associative. Parity stays correct: parity-associative. The
paper compares the two cutoffs; near the training length they carry little information, so here the
parity of every wrong answer is checked (distances.parity_kept): over all answers up to the training
length, and over those up to where parity is lost too, because beyond it is lost to any model that
is still learning. A model without errors cannot be read this way.
"""

from __future__ import annotations

from typing import Any

from statetrace.lenses.result import LensResult
from statetrace.mechanisms.distances import Array, parity_kept
from statetrace.mechanisms.mastery import by_length, cutoff_sentence, cutoffs, has_learned
from statetrace.mechanisms.mechanism_map import calibrated

UNDECIDED = "undecided"


def read_cutoffs(general: LensResult) -> str:
    """associative, parity-associative, unlearned, or undecided if that is not enough."""
    trained = int(general.summary["training_length"])
    if not has_learned(general):
        return "unlearned"
    quotients = [name for name in general.summary["cutoff"] if name != "state"]
    if not quotients:
        return UNDECIDED
    chances = dict(zip(general.columns["what"], general.columns["chance"], strict=True))
    order, images = (round(1 / chances[kind]) for kind in ("state", quotients[0]))
    state, parity = by_length(general, "state"), by_length(general, quotients[0])
    sizes = int(min(general.columns["n"])), order, order // images
    lost = min(trained, _lost(parity, 1 / images))
    shares = [
        parity_kept(state, parity, trained, *sizes),
        parity_kept(state[:lost], parity[:lost], lost, *sizes),
    ]
    known = [share for share in shares if share is not None]
    if not known:
        return UNDECIDED
    return "parity-associative" if max(known) > 0.5 else "associative"


def _lost(accuracy: Array, chance: float) -> int:
    """The first length at which accuracy is nearer to chance than to 1."""
    lost = accuracy < (1 + chance) / 2
    return int(lost.argmax()) if lost.any() else len(accuracy)


def cutoff_verdict(general: LensResult) -> dict[str, Any]:
    """Mechanism, confidence and evidence from generalization alone; the confidence is how often the
    full verdict agreed with this reading in calibration."""
    mechanism = read_cutoffs(general)
    measured = calibrated()[1].get("fresh: all", {})
    agrees, models = measured.get("fast_agrees"), measured.get("fast_told", 0)
    evidence = {"generalization": {"cutoffs": cutoffs(general), "says": cutoff_sentence(general)}}
    says = _SENTENCES[mechanism] if mechanism != UNDECIDED else _undecided(general)
    if agrees is not None and mechanism not in (UNDECIDED, "unlearned"):
        says += (
            f"; the full verdict agreed with this reading for {agrees:.0%} of {models} calibration "
            "models"
        )
    confidence = 1.0 if mechanism == "unlearned" else float(agrees or 0.5)
    if mechanism == UNDECIDED:
        confidence = 0.5
    return {
        "mechanism": mechanism,
        "confidence": round(confidence, 4),
        "evidence": evidence,
        "says": says,
    }


def _undecided(general: LensResult) -> str:
    only_state = len(general.summary["cutoff"]) == 1
    why = "the group has no parity or other quotient" if only_state else "there are too few errors"
    return f"generalization alone cannot decide: {why}"


_SENTENCES = {
    "associative": "where the state is wrong, parity is wrong too",
    "parity-associative": "where the state is wrong, parity is mostly correct",
    "unlearned": "the model has not learned the task",
}
