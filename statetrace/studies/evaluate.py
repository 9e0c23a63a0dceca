"""What a trained cell is asked: accuracy, cutoffs, which mechanism they speak for, and why.

Cost: two forward passes over 1,000 sequences for the quick verdict, all lenses for the full one.
Caveat: the quick verdict is the paper's reading of the generalization curve (section 5.1). It has
no confidence, and cannot tell a model that is right at every length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statetrace.groups import Group
from statetrace.lenses.dynamics import DynamicsSpec, dynamics
from statetrace.lenses.generalization import generalization
from statetrace.lenses.loading import load_run
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.cutoff_verdict import read_cutoffs
from statetrace.runs import Run


def measure(run: Run, step: int, device: str, full: bool) -> dict[str, Any]:
    """One checkpoint of a run, as plain JSON values."""
    subject = load_run(run, step, device)
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
    from statetrace.mechanisms.collect_evidence import collect_evidence
    from statetrace.mechanisms.verdict import verdict

    results = collect_evidence(subject.model, subject.task, {"generalization": general})
    judged = verdict(results, subject.task.group).to_dict()
    found |= {key: judged[key] for key in ("mechanism", "confidence", "says")}
    # logged while it learned, and not asked for the verdict, so that it may be compared with it
    log = dynamics(None, subject.task, DynamicsSpec(run=str(run.path), until=step))
    return found | {"evidence": evidence_of(results | {"dynamics": log}, subject.task.group)}


def evidence_of(results: Mapping[str, LensResult], group: Group) -> dict[str, dict[str, float]]:
    """Lens -> algorithm -> distance, or lens -> what it says of parity; nothing of a model that
    has not learned the task."""
    from statetrace.mechanisms.evidence import NEEDED, Evidence
    from statetrace.mechanisms.verdict import MEASURED, measure_distances

    if not all(lens in results for lens in NEEDED):
        return {}
    evidence = Evidence.of(results, group)
    numbers = measure_distances(evidence, group)
    found = {lens: numbers[lens] for lens in MEASURED if lens in numbers}
    if "generalization" in numbers:
        found["generalization"] = {"parity apart": numbers["generalization"]}
    if evidence.head is not None:
        score, chance, lost = evidence.head
        found["attention"] = {"score": score, "by chance": chance, "parity lost": 100 * lost}
    if evidence.ahead is not None:
        found["dynamics"] = {"parity lead": evidence.ahead}
    return {lens: {k: round(v, 4) for k, v in of.items()} for lens, of in found.items()}
