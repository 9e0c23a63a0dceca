"""Labels of the study by what was trained: the test that docs/findings/small-parallel.md planned.

python -m calibration.parallel
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scipy.stats import fisher_exact

from calibration.__main__ import rows
from calibration.measuring import Row
from calibration.report import shape

LABELS = ("parallel", "parity-associative", "associative", "composed-quotient", "undecided")
FIRST, SCRATCH = "parity", "from scratch"
PLANNED = 9
"""Parallel models among those that learned parity first, for the observation to hold."""


def study() -> list[Row]:
    return [*rows("study"), *rows("fresh-study")]


def counts(models: Sequence[Row], training: str, family: str = "") -> Counter[str]:
    """Labels of the models of S3 at length 16 with 5 layers and a start marker."""
    chosen = [row for row in models if _planned(row, training, family)]
    return Counter(row["label"] for row in chosen)


def _planned(row: Row, training: str, family: str) -> bool:
    about = shape(row)
    same = (about["group"], about["length"], about["layers"]) == ("S3", "16", "5")
    return same and _marked(about) and about["training"] == training and family in about["model"]


def _marked(about: dict[str, str]) -> bool:
    return about["start marker"] == "yes"


def decided(labels: Counter[str]) -> int:
    return labels.total() - labels["undecided"]


def p_value(labels: Counter[str], others: Counter[str]) -> float:
    """One-sided: are more of the decided ones parallel than of the others?"""
    table = [[each["parallel"], decided(each) - each["parallel"]] for each in (labels, others)]
    return float(fisher_exact(table, alternative="greater").pvalue)


def sentence(models: Sequence[Row]) -> str:
    first, scratch = counts(models, FIRST), counts(models, SCRATCH)
    p = p_value(first, scratch)
    holds = first["parallel"] >= PLANNED and p < 0.05
    return (
        f"{first['parallel']} of the {decided(first)} decided models that learned parity first are "
        f"parallel, and {scratch['parallel']} of {decided(scratch)} from scratch (p = {p:.3f}). "
        f"The observation {'holds' if holds else 'does not hold'}."
    )


def table(models: Sequence[Row]) -> list[str]:
    lines = [
        f"| trained on | model | {' | '.join(LABELS)} |",
        f"|---|---|{'--:|' * len(LABELS)}",
    ]
    for training in sorted({shape(row)["training"] for row in models}):
        for family in ("gpt2", "pythia"):
            labels = counts(models, training, family)
            numbers = " | ".join(str(labels[name]) for name in LABELS)
            lines.append(f"| {training} | {family} | {numbers} |")
    return lines


if __name__ == "__main__":
    print(sentence(study()), *table(study()), sep="\n")
