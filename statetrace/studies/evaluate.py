"""Evaluate a trained cell: accuracy, cutoffs, verdict and its evidence.

Cost: two forward passes over 1,000 sequences for the quick verdict, those and the depth lens for
the standard one, all lenses for the full one. Seeds of one model are measured together, except by
the lenses that the full verdict adds.
Caveat: the quick verdict is the paper's reading of the generalization curve (section 5.1). It has
no confidence and cannot classify a model that is correct at every length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statetrace.analysis import Analyzer
from statetrace.groups import Group
from statetrace.lenses.dynamics import dynamics
from statetrace.lenses.loading import load_run
from statetrace.lenses.result import LensResult
from statetrace.lenses.specs import DynamicsSpec
from statetrace.mechanisms import distances, registered
from statetrace.mechanisms.cutoff_verdict import read_cutoffs
from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.mastery import COLLECTED, NEEDED
from statetrace.mechanisms.verdict import measure_distances
from statetrace.runs import Run
from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.grid import Cell
from statetrace.studies.stacked_analysis import analyze_together, measure_together


def evaluate_checkpoints(
    runs: Sequence[Run], step: int, device: str, verdict: str, store: bool
) -> list[dict[str, Any]]:
    """One checkpoint of each run, as plain JSON values. The runs differ in their seed alone, and
    are measured together.

    Args:
        verdict: the kind of verdict, as in StudySettings.
        store: whether lens results and the verdict are written to the run folders; `step` is then
            the last one.
    """
    analyzers = [
        Analyzer(run, device=device) if store else Analyzer(load_run(run, step, device))
        for run in runs
    ]
    if verdict == "quick":
        analyze_together(analyzers, "generalization")
    else:
        measure_together(analyzers)
    return [
        _record(analyzer, run, step, verdict) for analyzer, run in zip(analyzers, runs, strict=True)
    ]


def _record(analyzer: Analyzer, run: Run, step: int, verdict: str) -> dict[str, Any]:
    (general,) = analyze_together([analyzer], "generalization")
    summary = general.summary
    cutoffs = summary["cutoff"]
    quotient = next((name for name in cutoffs if name != "state"), None)
    record = {
        "step": step,
        "quick": read_cutoffs(general),
        "accuracy": summary["accuracy"]["state"],
        "cutoff": cutoffs["state"]["first_below"],
        "parity_accuracy": summary["accuracy"][quotient] if quotient else None,
        "parity_cutoff": cutoffs[quotient]["first_below"] if quotient else None,
        "longest": summary["longest"],
    }
    if verdict == "quick":
        return record
    results = analyzer.evidence(lenses=COLLECTED if verdict == "full" else NEEDED)
    judged = analyzer.verdict().to_dict()
    record |= {key: judged[key] for key in ("mechanism", "confidence", "says")}
    # left out of the verdict, so that the two can be compared
    log = dynamics(None, analyzer.loaded.task, DynamicsSpec(run=str(run.path), until=step))
    return record | {"evidence": evidence_of(results | {"dynamics": log}, analyzer.group)}


def evidence_of(results: Mapping[str, LensResult], group: Group) -> dict[str, dict[str, float]]:
    """Lens -> algorithm -> distance, or lens -> its parity measures; empty for a model that has not
    learned the task."""
    if not all(lens in results for lens in NEEDED):
        return {}
    evidence = Evidence.of(results, group)
    numbers = measure_distances(evidence, group, registered.candidates(evidence, group))
    apart = distances.parity_apart(evidence)
    if apart is not None:
        numbers["generalization"] = {"parity apart": apart}
    if evidence.head is not None:
        score, chance, lost = evidence.head
        numbers["attention"] = {"score": score, "by chance": chance, "parity lost": 100 * lost}
    if evidence.lead is not None:
        numbers["dynamics"] = {"parity lead": evidence.lead}
    return {lens: {k: round(v, 4) for k, v in row.items()} for lens, row in numbers.items()}


def reevaluate(study: Study, cell: Cell) -> str:
    """Replace the final evaluation of a finished cell, with lenses and lens weights newer than its
    verdict; returns a sentence on what changed. The early evaluation stays: its weights are gone.
    """
    outcome = study.outcome(cell)
    if outcome is None or outcome["state"] != FINISHED:
        return f"{cell.name}: not finished, skipped"
    before, run = outcome["final"], study.run(cell)
    step = before.get("step")
    if step is None:
        return f"{cell.name}: its outcome does not record a step, skipped"
    if step not in dict(run.checkpoints()):
        return f"{cell.name}: its weights of step {step:,} are gone, skipped"
    (after,) = evaluate_checkpoints([run], step, "auto", study.plan.settings.verdict, store=False)
    study.replace_final(cell, after)
    old, new = (record.get("mechanism", record.get("quick")) for record in (before, after))
    return f"{cell.name}: {new}" + ("" if new == old else f", before {old}")
