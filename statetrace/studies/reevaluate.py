"""Evaluate a trained cell again, with lenses and lens weights newer than its verdict.

Cost: one evaluation; nothing is trained.
Caveat: the early evaluation is not repeated: its weights are gone.
"""

from __future__ import annotations

from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.grid import Cell


def reevaluate(study: Study, cell: Cell) -> str:
    """Replace the final evaluation of a finished cell; returns a sentence on what changed."""
    outcome = study.outcome(cell)
    if outcome is None or outcome["state"] != FINISHED:
        return f"{cell.name}: not finished, skipped"
    before, run = outcome["final"], study.run(cell)
    step = before.get("step")
    if step is None:
        return f"{cell.name}: its outcome does not record a step, skipped"
    if step not in dict(run.checkpoints()):
        return f"{cell.name}: its weights of step {step:,} are gone, skipped"
    from statetrace.studies.evaluate import evaluate_checkpoint

    after = evaluate_checkpoint(run, step, "auto", study.plan.settings.verdict == "full")
    study.replace_final(cell, after)
    old, new = (record.get("mechanism", record.get("quick")) for record in (before, after))
    return f"{cell.name}: {new}" + ("" if new == old else f", before {old}")
