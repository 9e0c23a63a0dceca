"""Numbers from training and from accuracy by length of single models (sections 4.4 and 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.measured import Measure, Measured, of_correlation
from reproduction.model_selection import need_converged, of_best
from reproduction.results import Missing, Results, lens_file, lens_files

Array = np.ndarray


@of_best
def cutoffs(model: str, relative: bool = False) -> Measure:
    """How many lengths parity's cutoff lies beyond that of the state, or which share of it; the
    interval is as wide as both cutoffs' own (resampled) allow. `relative`, a model that knows the
    state to the end of what it was trained on is refused: both cutoffs are there then anyway."""

    def measure(found: Results) -> Measured:
        about = found.json(lens_file(model, "generalization", "json"))
        summary = about["summary"]
        beyond = summary["longest"] + 1
        (state, low, high), (parity, parity_low, parity_high) = (
            [summary["cutoff"][what][key] or beyond for key in ("first_below", "low", "high")]
            for what in ("state", "parity")
        )
        if relative and high >= summary["training_length"]:
            raise Missing(f"'{model}' knows the state up to the end of its training length")
        words = f"state {state}, parity {parity}, trained on {summary['training_length']}"
        unit = state if relative else 1
        return Measured((parity - state) / unit, about["spec"]["sequences"], "sequences",
                        (parity_low - high) / unit, (parity_high - low) / unit, words=words,
                        sources=lens_files(model, "generalization.json"))  # fmt: skip

    return measure


@of_best
def reach(model: str) -> Measure:
    """The state cutoff in units of the training length, of a model that was trained to the end."""

    def measure(found: Results) -> Measured:
        need_converged(found, model)
        about = found.json(lens_file(model, "generalization", "json"))
        summary = about["summary"]
        cutoff, trained = summary["cutoff"]["state"], summary["training_length"]
        at, low, high = (
            (cutoff[key] or summary["longest"] + 1) / trained
            for key in ("first_below", "low", "high")
        )
        return Measured(at, about["spec"]["sequences"], "sequences", low, high,
                        words=f"{cutoff['first_below']} of {trained}",
                        sources=lens_files(model, "generalization.json"))  # fmt: skip

    return measure


@of_best
def accuracy_beyond(model: str, times: float) -> Measure:
    """Share of states right at so many times the training length, of a model that was trained to
    the end."""

    def measure(found: Results) -> Measured:
        need_converged(found, model)
        summary = found.json(lens_file(model, "generalization", "json"))["summary"]
        length = round(times * summary["training_length"])
        sources = lens_files(model, "generalization", "generalization.json")
        rows = [
            row
            for row in found.table(lens_file(model, "generalization"))
            if (row["what"], row["length"]) == ("state", length)
        ]
        if not rows:
            return Measured(None, words=f"not tried at length {length}", sources=sources)
        row = rows[0]
        return Measured(row["accuracy"], row["n"], "sequences", row["low"], row["high"], "share",
                        f"at length {length}", sources)  # fmt: skip

    return measure


@of_best
def by_length(model: str, threshold: float = 0.9) -> Measure:
    """Rank correlation of lengths with the step at which their states were first right in
    `threshold` of the cases, over lengths that were."""

    def measure(found: Results) -> Measured:
        rows = [
            row
            for row in found.table(lens_file(model, "dynamics"))
            if (row["measure"], row["what"], row["threshold"]) == ("reached", "state", threshold)
            and row["step"] is not None
        ]
        if len({row["step"] for row in rows}) < 3:
            raise Missing(f"of '{model}' too few lengths were learned at different steps")
        steps = {row["length"]: row["step"] for row in sorted(rows, key=lambda r: r["length"])}
        shown = list(steps)[:: max(1, len(steps) // 6)]
        words = f"{threshold:.0%} right at " + ", ".join(
            f"{n} from step {steps[n]:,}" for n in shown
        )
        value = float(np.corrcoef(ranks(list(steps)), ranks(list(steps.values())))[0, 1])
        return Measured(value, len(steps), "lengths", *of_correlation(value, len(steps)),
                        words=words, sources=lens_files(model, "dynamics"))  # fmt: skip

    return measure


def ranks(values: list[Any]) -> Array:
    """Places in order; equal values share the mean of theirs."""
    array = np.array(values)
    return np.array([(array < one).sum() + ((array == one).sum() - 1) / 2 for one in array])
