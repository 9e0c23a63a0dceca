"""Look at a trained cell again, as it is: with lenses and weights newer than its verdict.

Cost: that of its measurement; nothing is trained.
Caveat: only the last look is repeated. The early one was at weights that are gone.
"""

from __future__ import annotations

from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.grid import Cell


def look_again(study: Study, cell: Cell) -> str:
    """Replace what a finished cell's outcome says of its last step; a sentence on what changed."""
    outcome = study.outcome(cell)
    if outcome is None or outcome["state"] != FINISHED:
        return f"{cell.name}: not finished, left alone"
    before, run = outcome["final"], study.run(cell)
    step = before.get("step")
    if step is None:
        return f"{cell.name}: its outcome does not say what was measured, left alone"
    if step not in dict(run.checkpoints()):
        return f"{cell.name}: its weights of step {step:,} are gone, left alone"
    from statetrace.studies.evaluate import measure

    now = measure(run, step, "auto", study.plan.rules.verdict == "full")
    study.replace_final(cell, now)
    old, new = (said.get("mechanism", said.get("quick")) for said in (before, now))
    return f"{cell.name}: {new}" + ("" if new == old else f", before {old}")
