"""Trained models of the calibration, and their labels from evidence that no verdict uses.

The rule, written down before any label was computed: a model is labeled by its prefix patching maps
and by probes, at the longest length that it solves.

- The law of a quotient is read from pairs that differ in it, that of the rest from pairs that agree
  in it. A map is "counted" if its best path of fronts that go from 1 to the length in one layer is
  at most 2/3 as far from it as the best path of fronts that grow by a factor, and "composed" if the
  latter is at most 2/3 as far as the former.
- The quotient is computed on its own if a probe reads it (0.8 of the way from guessing to
  certainty) at some layer and length where the state is not known (less than 0.6 of the way), and
  only with the state if no such probe gets beyond 0.4.
- Counted, then composed: parity-associative. Both counted: parallel. Both composed:
  composed-quotient if the quotient is computed on its own, associative if only with the state.
- All else is undecided: such models are kept, and neither fitted to nor counted as mistakes.

    python -m calibration.trained RUN [RUN ...] --out FILE

appends a row per run folder. Cost: about 10 s of one core per model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import statetrace as st
from calibration.fitting import UNDECIDED, UNLEARNED
from calibration.measuring import Row, summary
from statetrace.analysis import Analyzer
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.distances import _composed, _step_costs, knowledge
from statetrace.mechanisms.evidence import Evidence
from statetrace.mechanisms.mastery import NEEDED
from statetrace.mechanisms.paths import best, counted

CLEAR = 2 / 3
READABLE, HIDDEN, UNKNOWN = 0.8, 0.4, 0.6


def evidence_of(results: Mapping[str, LensResult], group: Any) -> dict[str, float] | None:
    """quotient, rest: distance of the best counted path over that of the best composed one; lead:
    how well the quotient is read where the state is unknown. None without the splits."""
    patching, evidence = results["patching"], Evidence.of(results, group)
    if evidence.quotient is None or evidence.parity is None or evidence.state is None:
        return None
    names = {"quotient": f"opposite {evidence.quotient}", "rest": f"same {evidence.quotient}"}
    if evidence.quotient != "parity":
        names["quotient"] = f"different {evidence.quotient}"
    ratios = {}
    for name, split in names.items():
        where = {"where": "prefix", "what": "substitution", "kind": "resid", "metric": "nld"}
        grid = patching.grid(**where, split=split)
        if not grid.size or np.isnan(grid).any():
            return None
        costs = _step_costs(np.clip(grid, 0.0, 1.0))
        ratios[name] = round(best(costs, counted(costs.shape[1])) / max(_composed(costs), 1e-6), 3)
    parity = knowledge(evidence.parity, evidence.order // evidence.unknown)
    state = knowledge(evidence.state, evidence.order)
    return ratios | {"lead": round(float((parity * (state < UNKNOWN)).max()), 3)}


def label(evidence: Mapping[str, float] | None) -> str:
    """By the rule above."""
    if evidence is None:
        return UNDECIDED
    laws = []
    for name in ("quotient", "rest"):
        ratio = evidence[name]
        laws.append("counted" if ratio < CLEAR else "composed" if ratio > 1 / CLEAR else None)
    if evidence["lead"] > READABLE:
        names = {
            ("counted", "composed"): "parity-associative",
            ("counted", "counted"): "parallel",
            ("composed", "composed"): "composed-quotient",
        }
        return names.get((laws[0], laws[1]), UNDECIDED)  # type: ignore[arg-type]
    return "associative" if evidence["lead"] < HIDDEN and set(laws) == {"composed"} else UNDECIDED


def measured(source: str) -> Row:
    """A row; the lens results are computed in memory, so that the run folder stays as it is."""
    model = Analyzer(st.load(source).loaded)
    results = model.evidence()
    row: Row = {"name": source, "group": model.group.name, "length": model.length}
    row |= summary(results)
    if row["links"] is None:
        return row | {"label": UNLEARNED}
    results = model.evidence(lenses=(*NEEDED, "patching", "probing"))
    row["evidence"] = evidence_of(results, model.group)
    return row | {"label": label(row["evidence"])}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure trained models for the calibration.")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    with arguments.out.open("a") as file:
        for run in arguments.runs:
            file.write(json.dumps(measured(run)) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
