"""The numbers of docs/findings/small-parallel.md: which models of the study are parallel.

`python -m calibration.parallel` computes them from the labels in calibration/data.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from scipy.stats import fisher_exact

from calibration.__main__ import rows
from calibration.fitting import UNDECIDED
from calibration.measuring import Row
from calibration.report import shape

LABELS = {
    "parallel": "parallel",
    "PAA": "parity-associative",
    "AA": "associative",
    "composed quotient": "composed-quotient",
    "undecided": UNDECIDED,
}
SCRATCH, FIRST = "from scratch", "parity"
TRAINED = {
    SCRATCH: "the state alone",
    FIRST: "parity first, then the state",
    "auxiliary": "state and parity together",
    "topic-1": "topic model 1 first",
    "topic-2": "topic model 2 first",
    "control": "random documents first",
    "length": "short sequences first",
}
FAMILIES = {"gpt2": "GPT-2", "pythia": "Pythia"}
PLANNED = 9
"""Parallel models among those that learned parity first, for the observation to hold."""


def result(models: Sequence[Row]) -> tuple[str, ...]:
    """The sentence and the tables of the page."""
    return _test(models), _by_training(models), _by_length(models)


def counts(models: Sequence[Row], training: str, **others: str) -> Counter[str]:
    """Labels of S3 models."""
    wanted = {"group": "S3", "training": training} | others
    return Counter(row["label"] for row in models if wanted.items() <= shape(row).items())


def _planned(models: Sequence[Row], training: str, **others: str) -> Counter[str]:
    return counts(models, training, length="16", layers="5", **({"start marker": "yes"} | others))


def decided(labels: Counter[str]) -> int:
    return labels.total() - labels[UNDECIDED]


def _compared(first: Counter[str], scratch: Counter[str]) -> tuple[str, float]:
    table = [[each["parallel"], decided(each) - each["parallel"]] for each in (first, scratch)]
    p = float(fisher_exact(table, alternative="greater").pvalue)
    numbers = [f"{each['parallel']} of {decided(each)}" for each in (first, scratch)]
    return f"{numbers[0]} against {numbers[1]}, p = {p:.3f}", p


def _test(models: Sequence[Row]) -> str:
    first, scratch = _planned(models, FIRST), _planned(models, SCRATCH)
    compared, p = _compared(first, scratch)
    holds = first["parallel"] >= PLANNED and p < 0.05
    families = [
        f"{name}: {_compared(*(_planned(models, t, model=m) for t in (FIRST, SCRATCH)))[0]}"
        for m, name in FAMILIES.items()
    ]
    text = (
        f"By this criterion the observation {'holds' if holds else 'does not hold'}. Parallel "
        f"among the decided models, parity first against from scratch: {compared}. By family: "
        f"{'; '.join(families)}."
    )
    return textwrap.fill(text, 130)


def _by_training(models: Sequence[Row]) -> str:
    found = {
        f"{name} | {family}": _planned(models, training, model=model)
        for training, name in TRAINED.items()
        for model, family in FAMILIES.items()
    }
    return _table("trained on | family", found)


def _by_length(models: Sequence[Row]) -> str:
    lengths = sorted({int(shape(row)["length"]) for row in models if row["group"] == "S3"})
    found = {str(n): counts(models, SCRATCH, length=str(n)) for n in lengths}
    return _table("length", found)


def _table(head: str, found: dict[str, Counter[str]]) -> str:
    lines = [f"| {head} | {' | '.join(LABELS)} |"]
    lines += [f"|{'---|' * len(head.split('|'))}{'--:|' * len(LABELS)}"]
    for name, labels in found.items():
        lines.append(f"| {name} | {' | '.join(str(labels[x]) for x in LABELS.values())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(*result(rows("study")), sep="\n\n")
