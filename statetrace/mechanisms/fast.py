"""The paper's quick reading: generalization alone, as it does after 10,000 steps (section 5).

State and parity cutoffs coincide: associative. Parity's is well beyond: parity-associative. A model
that has no state cutoff at all cannot be told this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrace.lenses.result import LensResult
from statetrace.mechanisms.learned import LEARNED, able
from statetrace.mechanisms.verdict import calibrated

BEYOND = 1.1
"""Parity's cutoff is well beyond the state's from 10% on: the cutoffs of associative models of ours
differ by a length or none, 3% and less, those of parity-associative ones by 20% and more unless the
state is right to the end."""


def read_cutoffs(general: LensResult) -> str:
    """associative, parity-associative, unlearned, or mixed where the cutoffs cannot tell."""
    if able(general) < min(LEARNED, int(general.summary["training_length"])):
        return "unlearned"
    quotients = [name for name in general.summary["cutoff"] if name != "state"]
    if not quotients:
        return "mixed"
    longest = int(general.summary["longest"])
    ends = []
    for kind in ("state", quotients[0]):
        cut = general.arrays[f"cutoff_bootstrap_{kind}"].astype(np.int64)
        ends.append(np.where(cut < 0, longest + 1, cut))  # -1: never below
    state, parity = ends
    if np.mean(state > longest) > 0.5:
        return "mixed"
    return "parity-associative" if np.mean(parity >= BEYOND * state) > 0.5 else "associative"


def quick_verdict(general: LensResult) -> dict[str, Any]:
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
            f"; where the cutoffs told anything, the full verdict agreed for {agrees:.0%} of "
            f"{told} models"
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
    "associative": "state and parity end together",
    "parity-associative": "parity reaches well beyond the state",
    "mixed": "the cutoffs cannot tell: the state has none within reach, or there is no parity",
    "unlearned": "it has not learned the task",
}
