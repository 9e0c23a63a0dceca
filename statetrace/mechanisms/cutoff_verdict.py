"""The paper's quick reading: generalization alone, as it does after 10,000 steps (section 5).

State and parity end together: associative. Parity goes on: parity-associative. The paper compares
the two cutoffs; near the end of the training length they say little, so here every wrong answer is
asked whether its parity is right (distances.parity_kept): of all answers up to the training length,
and of those up to where parity is lost too, since beyond it is lost to any model that still learns.
A model that is right throughout cannot be told this way.
"""

from __future__ import annotations

from typing import Any

from statetrace.lenses.result import LensResult
from statetrace.mechanisms.distances import Array, parity_kept
from statetrace.mechanisms.evidence import by_length
from statetrace.mechanisms.mastery import LEARNED, mastered_length
from statetrace.mechanisms.verdict import calibrated


def read_cutoffs(general: LensResult) -> str:
    """associative, parity-associative, unlearned, or mixed where generalization cannot tell."""
    trained = int(general.summary["training_length"])
    if mastered_length(general) < min(LEARNED, trained):
        return "unlearned"
    quotients = [name for name in general.summary["cutoff"] if name != "state"]
    if not quotients:
        return "mixed"
    chances = dict(zip(general.columns["what"], general.columns["chance"], strict=True))
    order, images = (round(1 / chances[kind]) for kind in ("state", quotients[0]))
    state, parity = by_length(general, "state"), by_length(general, quotients[0])
    sizes = int(min(general.columns["n"])), order, order // images
    lost = min(trained, _lost(parity, 1 / images))
    told = [
        parity_kept(state, parity, trained, *sizes),
        parity_kept(state[:lost], parity[:lost], lost, *sizes),
    ]
    kept = [share for share in told if share is not None]
    if not kept:
        return "mixed"
    return "parity-associative" if max(kept) > 0.5 else "associative"


def _lost(right: Array, chance: float) -> int:
    """The first length at which answers are nearer to chance than to being right."""
    lost = right < (1 + chance) / 2
    return int(lost.argmax()) if lost.any() else len(right)


def cutoff_verdict(general: LensResult) -> dict[str, Any]:
    """Mechanism, confidence and evidence from generalization alone; the confidence is how often, in
    calibration, the full verdict agreed with such a reading."""
    mechanism = read_cutoffs(general)
    measured = calibrated()[1].get("held out", {})
    agrees, told = measured.get("fast_agrees"), measured.get("fast_told", 0)
    ends = general.summary["cutoff"]
    cutoffs = {
        kind: end["first_below"]
        if end["first_below"] is not None
        else f"beyond {_longest(general)}"
        for kind, end in ends.items()
    }
    where = ", ".join(f"{kind} {cut}" for kind, cut in cutoffs.items())
    evidence = {"generalization": {"cutoffs": cutoffs, "says": f"98% cutoffs: {where}"}}
    says = _WORDS[mechanism]
    if agrees is not None and mechanism not in ("mixed", "unlearned"):
        says += (
            f"; the full verdict agreed with such a reading for {agrees:.0%} of {told} models of "
            "the calibration set"
        )
    confidence = 1.0 if mechanism == "unlearned" else float(agrees or 0.5)
    if mechanism == "mixed":
        confidence = 0.5
    return {
        "mechanism": mechanism,
        "confidence": round(confidence, 4),
        "evidence": evidence,
        "says": says,
    }


def _longest(general: LensResult) -> int:
    return int(general.summary["longest"])


_WORDS = {
    "associative": "where the state is wrong, so is parity",
    "parity-associative": "where the state is wrong, parity mostly is not",
    "mixed": "generalization cannot tell: it makes no mistakes, or there is no parity",
    "unlearned": "it has not learned the task",
}
