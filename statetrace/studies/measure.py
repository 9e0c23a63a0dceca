"""What a trained cell is asked: accuracy, cutoffs, and which mechanism they speak for.

Cost: two forward passes over 1,000 sequences for the quick verdict, all lenses for the full one.
Caveat: the quick verdict is the paper's reading of the generalization curve (section 5.1). It has
no confidence, and cannot tell a model that is right at every length.
"""

from __future__ import annotations

from typing import Any

from statetrace.lenses.generalization import generalization
from statetrace.lenses.subject import from_run
from statetrace.mechanisms.fast import read_cutoffs
from statetrace.runs import Run


def measure(run: Run, step: int, device: str, full: bool) -> dict[str, Any]:
    """One checkpoint of a run, as plain JSON values."""
    subject = from_run(run, step, device)
    general = generalization(subject.model, subject.task)
    summary = general.summary
    ends = summary["cutoff"]
    others = [name for name in ends if name != "state"]
    quotient = others[0] if others else None
    found = {
        "step": step,
        "quick": read_cutoffs(general),
        "accuracy": summary["accuracy"]["state"],
        "cutoff": ends["state"]["first_below"],
        "parity_accuracy": summary["accuracy"][quotient] if quotient else None,
        "parity_cutoff": ends[quotient]["first_below"] if quotient else None,
        "longest": summary["longest"],
    }
    if not full:
        return found
    from statetrace.mechanisms.gather import gather
    from statetrace.mechanisms.verdict import verdict

    results = gather(subject.model, subject.task, {"generalization": general})
    judged = verdict(results, subject.task.group).as_json()
    return found | {key: judged[key] for key in ("mechanism", "confidence", "says")}
