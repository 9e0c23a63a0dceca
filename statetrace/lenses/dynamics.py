"""State and parity accuracy over training (section 5.1, appendix G).

Reads metrics.jsonl and runs no model. Measures whether parity and state are learned together
(associative) or parity first (parity-associative), and splits training into phases.

The lead of a quotient is measured against guessing. A model that knows the state with probability p
and guesses otherwise has state accuracy p + (1 - p) / order and quotient accuracy
p + (1 - p) / image order; the lead is the quotient accuracy beyond that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.lenses.parts.changepoints import segments
from statetrace.lenses.result import LensResult, Progress, no_progress
from statetrace.lenses.specs import DynamicsSpec
from statetrace.runs import Run
from statetrace.tasks.word_problem import WordProblem

COLUMNS = ("measure", "what", "length", "threshold", "step", "value")
Row = tuple[Any, ...]


def dynamics(
    model: Any,
    task: WordProblem,
    spec: DynamicsSpec | None = None,
    progress: Progress = no_progress,
) -> LensResult:
    """The steps at which accuracies were reached, leads over the state, and phases.

    `model` is not used; all data come from the log of the run in `spec.run`.
    """
    spec = spec or DynamicsSpec()
    if not spec.run:
        raise StatetraceError("the dynamics lens needs a run folder; set its 'run' to one")
    records = Run.existing(Path(spec.run)).evaluations()
    if spec.until is not None:
        records = [record for record in records if record["step"] <= spec.until]
    settings = dataclasses.asdict(spec) | {"thresholds": list(spec.thresholds)}
    if len(records) < 2:
        note = (
            f"the log of the run has {len(records)} evaluation(s), and dynamics needs two or more; "
            "train with --evaluate-every"
        )
        summary = {"evaluations": len(records)}
        return LensResult("dynamics", settings, _columns([]), summary=summary, notes=(note,))
    steps = np.array([record["step"] for record in records])
    loss = np.array([record["loss"] for record in records])
    curves = {  # what -> [evaluations, lengths]
        what: np.array([record["accuracy_by_length"][what] for record in records])
        for what in records[0]["accuracy_by_length"]
    }
    rows = list(_reached(steps, curves, spec.thresholds))
    leads, group = {}, task.group
    for what in (name for name in curves if name != "state"):
        order = group.quotient(what).image.order
        lead = surplus(curves["state"], curves[what], group.order, order)
        rows += [
            ("lead", what, None, None, int(step), float(at_step.mean()))
            for step, at_step in zip(steps, lead, strict=True)
        ]
        leads[what] = _lead(lead, group.order, order)
    phases = _phases(steps, loss, curves, spec.most_phases)
    rows += [("phase", "start", None, None, at, float(n)) for n, at in enumerate(phases, start=1)]
    progress(1.0)
    summary = {"evaluations": len(records), "last_step": int(steps[-1])}
    return LensResult(
        lens="dynamics",
        spec=settings,
        columns=_columns(rows),
        arrays={"steps": steps, "loss": loss, **{f"accuracy_{w}": c for w, c in curves.items()}},
        summary=summary | {"lead": leads, "phases": phases},
    )


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def _reached(
    steps: np.ndarray, curves: dict[str, np.ndarray], thresholds: Sequence[float]
) -> Iterator[Row]:
    for what, curve in curves.items():
        for threshold in thresholds:
            for length, accuracy in enumerate(curve.T, start=1):
                step = first_reached(steps, accuracy, threshold)
                yield "reached", what, length, threshold, step, None


def first_reached(steps: np.ndarray, curve: np.ndarray, threshold: float) -> int | None:
    """The first evaluation at or above the threshold that is followed by another one (or is the
    last), so that a single outlier does not count."""
    above = curve >= threshold
    lasting = above & np.append(above[1:], True)
    return int(steps[lasting.argmax()]) if lasting.any() else None


def surplus(state: np.ndarray, quotient: np.ndarray, order: int, image_order: int) -> np.ndarray:
    """Accuracy of a quotient beyond what the accuracy of the state implies (see above)."""
    known = np.clip((state - 1 / order) / (1 - 1 / order), 0, 1)
    return quotient - (known + (1 - known) / image_order)


def _lead(lead: np.ndarray, order: int, image_order: int) -> dict[str, Any]:
    """The lead of a quotient, from its leads [evaluations, lengths]."""
    return {
        "largest": float(lead.mean(axis=1).max()),
        "share": share_of_lead(lead, order, image_order),
        "mean": float(lead.mean()),
    }


def share_of_lead(lead: np.ndarray, order: int, image_order: int) -> float:
    """The largest lead at each length (without the trivial length 1), averaged over lengths and
    divided by its possible maximum: a quotient that is always correct with a state no better than
    that implies. Lengths that are learned at different times thus have equal weight."""
    peaks = lead[:, 1:].max(axis=0) if lead.shape[1] > 1 else lead.max(axis=0)
    implied = (image_order - 1) / (order - 1)
    return float(peaks.mean() / ((1 - implied) * (1 - 1 / image_order)))


def _phases(
    steps: np.ndarray, loss: np.ndarray, curves: dict[str, np.ndarray], most: int
) -> list[int]:
    """First steps of the phases in which loss and accuracies change at constant rates."""
    series = np.stack([loss, *(curve.mean(axis=1) for curve in curves.values())], axis=1)
    spread = series.std(axis=0)
    series = (series - series.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return [int(steps[i]) for i in segments(series, most)]
