"""Trained models of the calibration, and their labels from evidence that no verdict uses.

The rule, written down before the labels were computed. It was tried on compiled models, on those of
the package and on four others. A model is labeled at the longest length that it solves, from
interchanges of neighbouring actions (interventions.py):

- The exposure of a link at a position is the sum over layers of the share of answers that an
  interchange makes wrong. The rest is all that follows the coarsest quotient.
- The quotient is counted if its exposure is at most 0.1 on average over positions, and composed if
  it is at least 0.3: where actions are added up one by one, an interchange changes nothing.
- The rest is composed if its exposure grows along the sequence: in the second half it is at least
  1.6 times that of the first two actions. It is counted if it is at most 1.3 times that: all
  positions are read in the same layers. In an abelian group it is counted if it is at most 0.1.
- Quotient counted, rest composed: parity-associative. Both counted: parallel.
- Quotient composed: on its own if, after cutting some block, 1 + its longest solved length is at
  least twice that of the state, and if a swap of its subspace before the last block moves at least
  40% of the answers; with the state if neither. On its own and the rest composed:
  composed-quotient. With the state: associative.
- Without a quotient: associative if composed.
- All else is undecided: such models are kept, and neither fitted to nor counted as mistakes.

    python -m calibration.trained RUN [RUN ...] --out FILE [--steps 3900,6500] [--processes N]

appends a row per checkpoint. Cost: about 15 s of one core per model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import statetrace as st
from calibration import interventions
from calibration.fitting import UNDECIDED, UNLEARNED
from calibration.measuring import Row, group_of, summary
from statetrace.analysis import Analyzer
from statetrace.groups import Group
from statetrace.mechanisms.mastery import solved_length

NEVER, OFTEN = 0.1, 0.3
LEVEL, GROWING = 1.3, 1.6
SPARED, MOVED = 2.0, 0.4
SHORTEST = 6
"""Actions that a model must solve to be labeled."""

COUNTED, COMPOSED = "counted", "composed"

Array = NDArray[np.float64]


def label(evidence: Mapping[str, Any] | None, group: Group) -> str:
    """By the rule above."""
    if evidence is None or len(evidence["positions"]) < 3:
        return UNDECIDED
    quotients = [name for name in evidence["interchange"] if name != "state"]
    rest = _law_of_rest(evidence, group)
    if not quotients:
        return "associative" if rest == COMPOSED else UNDECIDED
    first = _law_of_quotient(evidence, quotients[0])
    if first == COUNTED:
        return {COMPOSED: "parity-associative", COUNTED: "parallel"}.get(rest or "", UNDECIDED)
    own = _own(evidence, quotients) if first == COMPOSED else None
    if own is False:
        return "associative"
    return "composed-quotient" if own and rest == COMPOSED else UNDECIDED


def exposure(evidence: Mapping[str, Any], links: Sequence[str]) -> Array:
    """By position: the sum over layers of the share of answers that an interchange breaks."""
    return np.sum([np.array(evidence["interchange"][link]).sum(1) for link in links], axis=0)


def _law_of_quotient(evidence: Mapping[str, Any], quotient: str) -> str | None:
    mean = exposure(evidence, [quotient]).mean()
    return COUNTED if mean <= NEVER else COMPOSED if mean >= OFTEN else None


def _law_of_rest(evidence: Mapping[str, Any], group: Group) -> str | None:
    links, positions = list(evidence["interchange"]), np.array(evidence["positions"])
    shares = exposure(evidence, links[1:] or links)
    if shares.mean() <= NEVER:
        return COUNTED if group.is_abelian() else None
    early = shares[positions < 2].mean() if (positions < 2).any() else 0.0
    late = shares[positions >= evidence["length"] / 2].mean()
    ratio = late / max(early, NEVER)
    return COMPOSED if ratio >= GROWING else COUNTED if ratio <= LEVEL else None


def _own(evidence: Mapping[str, Any], quotients: Sequence[str]) -> bool | None:
    """Whether a quotient is computed on its own; None where cut and swap disagree."""
    state = 1 + np.array(evidence["cut"]["state"])
    spared = max(((1 + np.array(evidence["cut"][q])) / state).max() for q in quotients)
    moved = max(max(evidence["subspace"][q]["swap"][:-1]) for q in quotients)
    own = spared >= SPARED
    return bool(own) if own == (moved >= MOVED) else None


def measured(source: str, step: int | None = None) -> Row:
    """A row; the lens results are computed in memory, so that the run folder stays as it is."""
    import torch

    torch.set_num_threads(1)
    loaded = st.load(source, step=step, device="cpu").loaded
    model = Analyzer(loaded)
    results = model.evidence()
    name = source if step is None else f"{source}@{step}"
    row: Row = {"name": name, "group": model.group.name, "length": model.length}
    row |= summary(results)
    if row["links"] is None:
        return row | {"label": UNLEARNED}
    longest = solved_length(results["generalization"])
    row["evidence"] = None
    if longest >= SHORTEST:
        row["evidence"] = interventions.measure(loaded.model, loaded.task, longest)
    return row | {"label": label(row["evidence"], group_of(row))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure trained models for the calibration.")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", help="checkpoints to measure (default: the newest)")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    steps = [int(s) for s in arguments.steps.split(",")] if arguments.steps else [None]
    with arguments.out.open("a") as file, ProcessPoolExecutor(arguments.processes) as pool:
        jobs = {pool.submit(measured, *job): job for job in product(arguments.runs, steps)}
        for job in as_completed(jobs):
            try:
                row = job.result()
            except Exception as error:
                print(f"{jobs[job]}: {error}")
                continue
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
