"""Generalization by length (section 4.4): cutoffs at 98%, accuracy beyond the training length."""

from __future__ import annotations

from reproduction.lens_model import LensModel
from reproduction.measures.registry import each, rows
from reproduction.statistics import Number, share
from reproduction.tables import Missing, Row

SAME = 0.05
"""Cutoffs within this share of the state's are equal: 1,000 sequences do not place them better."""
FINISHED = 0.95
"""A model that knows the state up to this share of its training length has learned the task."""


def equal_cutoffs(state: int | None, parity: int | None) -> bool:
    if state is None or parity is None:
        return state == parity
    return abs(parity - state) <= SAME * state


def later_parity(state: int | None, parity: int | None) -> bool:
    return state is not None and (parity is None or parity > state)


@rows
def cutoffs(models: list[Row], equal: bool) -> Number:
    """The share of models whose state and parity cutoffs are equal (to 5%), or whose parity cutoff
    is the later one. Only models whose state cutoff lies within the training length count; in the
    others both cutoffs lie at its end."""
    models = [r for r in models if r["cutoff"] is not None and r["cutoff"] <= r["length"]]
    fits = equal_cutoffs if equal else later_parity
    return share(sum(fits(r["cutoff"], r["parity_cutoff"]) for r in models), len(models))


def finished(model: LensModel) -> Row:
    """The generalization summary of a model that learned the task up to its training length."""
    summary = model.summary("generalization")
    end = summary["cutoff"]["state"]["first_below"] or summary["longest"] + 1
    if end < FINISHED * summary["training_length"]:
        raise Missing(f"'{model.folder}' has not learned its training length")
    return summary


@each("generalization")
def reach(model: LensModel) -> Number:
    """The state cutoff of a finished model in units of its training length."""
    summary = finished(model)
    at, low, high = (
        (summary["cutoff"]["state"][key] or summary["longest"] + 1) / summary["training_length"]
        for key in ("first_below", "low", "high")
    )
    return Number(at, model.lens("generalization").spec["sequences"], "sequences", low, high)


@each("generalization")
def accuracy_beyond(model: LensModel, times: float) -> Number:
    """State accuracy of a finished model at so many times its training length."""
    length = round(times * finished(model)["training_length"])
    for row in model.table("generalization"):
        if (row["what"], row["length"]) == ("state", length):
            return Number(row["accuracy"], row["n"], "sequences", row["low"], row["high"], "share")
    raise Missing(f"'{model.folder}' was not tried at length {length}")
