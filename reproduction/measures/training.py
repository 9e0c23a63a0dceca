"""What is learned when (section 5.1, appendix G)."""

from __future__ import annotations

from reproduction.lens_model import LensModel
from reproduction.measures.lengths import later_parity
from reproduction.measures.registry import each, rows
from reproduction.statistics import Number, kappa, rank_correlation, share
from reproduction.tables import Missing, Row

TOGETHER = 0.1
"""Parity and state are learned together where parity leads by less, of the possible maximum."""


@each("dynamics")
def length_by_length(model: LensModel) -> Number:
    """Rank correlation of a length with the step at which its states were 90% correct."""
    reached = {
        row["length"]: row["step"]
        for row in model.table("dynamics")
        if (row["measure"], row["what"], row["threshold"]) == ("reached", "state", 0.9)
        and row["step"] is not None
    }
    if len(set(reached.values())) < 3:
        raise Missing(f"'{model.folder}' learned too few lengths at different steps")
    lengths = sorted(reached)
    return rank_correlation(lengths, [reached[length] for length in lengths], "lengths")


@rows
def leads(models: list[Row], together: bool) -> Number:
    """Of models with a training log that were not taught parity, the share that learned parity and
    state together, or parity first."""
    logged = [r for r in models if r["parity_lead"] is not None and not r["taught_parity"]]
    return share(sum((r["parity_lead"] < TOGETHER) == together for r in logged), len(logged))


@rows
def midway_cutoffs(models: list[Row]) -> Number:
    """The share of models whose parity cutoff is the later one midway in training, among those that
    were not taught parity and had begun to learn."""
    models = [
        r
        for r in models
        if r["early_step"] is not None
        and r["early_step"] < r["step"]
        and r["early_verdict"] not in (None, "unlearned")
        and not r["taught_parity"]
    ]
    later = sum(later_parity(r["early_cutoff"], r["early_parity_cutoff"]) for r in models)
    return share(later, len(models))


@rows
def early_reading(models: list[Row]) -> Number:
    """Cohen's kappa between the reading by cutoffs midway and the verdict of all lenses at the end;
    always guessing the common mechanism has 0."""
    models = [r for r in models if r["early_step"] is not None and r["early_step"] < r["step"]]
    if not models:
        raise Missing("no such model was trained on after an early reading")
    early, final = ([str(r[name]) for r in models] for name in ("early_verdict", "verdict"))
    equal = sum(a == b for a, b in zip(early, final, strict=True))
    value, low, high = kappa(early, final)
    return Number(value, len(models), "models", low, high, detail=f"{equal} of {len(models)} equal")
