"""The calibration page, and the numbers that the package quotes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibration.fitting import UNDECIDED, UNLEARNED, judge, labeled, quality
from calibration.measuring import Row
from statetrace.lenses.parts.intervals import wilson
from statetrace.mechanisms.mechanism_map import Weights, calibrated

Rows = Callable[[str], Sequence[Row]]

SETS = {
    "fitted: compiled": "compiled",
    "fitted: none or two of the algorithms": "others",
    "fitted: trained": "trained",
    "fresh: compiled": "fresh-compiled",
    "fresh: none or two of the algorithms": "fresh-others",
    "fresh: trained": "fresh-trained",
}
"""Name in the page -> file."""


def measured(rows: Rows, weights: Weights | None) -> dict[str, Any]:
    """What weights.json holds."""
    weights = calibrated()[0] if weights is None else weights
    about = {name: quality(labeled(rows(file)), weights) for name, file in SETS.items()}
    fresh = [row for name in SETS if name.startswith("fresh") for row in labeled(rows(SETS[name]))]
    about["fresh: all"] = quality(fresh, weights)
    return {"weights": dict(weights), "measured": about}


def page(rows: Rows, about: Mapping[str, Any]) -> str:
    numbers, weights = about["measured"], about["weights"]
    lines = [_HEAD, *_table(numbers), "", _RELIABILITY, *_bins(numbers["fresh: all"]["bins"])]
    lines += ["", "## Trained models", "", _TRAINED, "", *_trained(rows, weights)]
    lines += ["", "## Every mistake", "", *_mistakes(rows, weights)]
    lines += ["", "## `--fast`", "", *_fast(numbers)]
    return "\n".join(lines) + "\n"


def _table(numbers: Mapping[str, Any]) -> list[str]:
    lines = [
        "| models | n | correct | mean confidence | calibration error | wrong above 0.95 | "
        "none or two, named above 0.9 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in numbers.items():
        if not row["models"]:
            continue
        wrong, sure = row["wrong_above_0.95"]
        named, none = row["none_named_above_0.9"]
        lines.append(
            f"| {name} | {row['models']} | {row['right']:.1%} | {row['confidence']:.2f} | "
            f"{row['calibration_error']:.3f} | {wrong} of {sure} | "
            + (f"{named} of {none} |" if none else "|")
        )
    return lines


def _bins(bins: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| confidence | n | correct | 95% interval | mean confidence |",
        "|---|--:|--:|---|--:|",
    ]
    for row in bins:
        low, high = wilson(row["correct"], row["models"])
        lines.append(
            f"| {row['from']:g} to {row['to']:g} | {row['models']} | "
            f"{row['correct'] / row['models']:.0%} | {float(low):.0%} to {float(high):.0%} | "
            f"{row['confidence']:.2f} |"
        )
    return lines


def _trained(rows: Rows, weights: Weights) -> list[str]:
    """Verdicts by label, for all trained models."""
    lines = ["| label | models | verdicts |", "|---|--:|---|"]
    both = [*rows("trained"), *rows("fresh-trained")]
    for label in dict.fromkeys(sorted(row["label"] for row in both)):
        verdicts = Counter(judge(row, weights)[0] for row in both if row["label"] == label)
        listed = ", ".join(f"{name} {n}" for name, n in verdicts.most_common())
        lines.append(f"| {label} | {verdicts.total()} | {listed} |")
    return lines


def _mistakes(rows: Rows, weights: Weights) -> list[str]:
    lines = ["| set | model | label | verdict | confidence |", "|---|---|---|---|--:|"]
    for name, file in SETS.items():
        for row in labeled(rows(file)):
            verdict, confidence = judge(row, weights)
            if verdict != row["label"]:
                lines.append(
                    f"| {name} | {_name(row)} | {row['label']} | {verdict} | {confidence:.2f} |"
                )
    return lines


def _name(row: Row) -> str:
    if "name" in row:
        return str(row["name"]).removeprefix("results/").replace("/cells/", "/")
    spec = row["spec"]
    second = f" + {spec['second']} ({spec['share']:g})" if spec["second"] else ""
    return f"{spec['algorithm']}{second}, {spec['group']}, length {spec['length']}"


def _fast(numbers: Mapping[str, Any]) -> list[str]:
    lines = [
        "| models | n | gave a mechanism | agreed with the full verdict |",
        "|---|--:|--:|--:|",
    ]
    for name, row in numbers.items():
        agrees = "" if row["fast_agrees"] is None else f"{row['fast_agrees']:.0%}"
        lines.append(f"| {name} | {row['models']} | {row['fast_told']} | {agrees} |")
    return lines


_HEAD = """# Calibration of the verdict

How often is the verdict right, and how far can its confidence be trusted? The weights were fitted
to models whose algorithm is known, and then evaluated once on fresh ones.

- **Compiled**: weights computed so that the model runs a known algorithm, with all options varied
  (group, length, notation, start marker, parity readable or hidden, counters, unused heads and
  layers, basis, noise, sharpness). Fresh ones have another seed.
- **None or two of the algorithms**: two circuits that share the logits, folds in strides and
  chunks, lookup tables, a quotient composed first, and circuits that are computed but not read.
- **Trained**: small models of S3 with kept weights. Labels come from prefix patching and probes,
  which the verdict does not use, by a rule that was fixed before any label was computed
  (`calibration/trained.py`). Nobody had looked at the fresh ones when features and weights were
  chosen.

`make calibration` writes this page from `calibration/data/`.
"""

_RELIABILITY = """Features were chosen with the fitted models in view, so only the fresh rows are a
test. One weight (`steep`) was added after they had been evaluated, for verdicts at lengths below
eight; it changed none of theirs. Confidence against the share of correct verdicts, all fresh
models:
"""

_TRAINED = f"""The rule labels a model only where patching and probes are clear; the others are
"{UNDECIDED}" and count neither as correct nor as wrong. A verdict of "{UNLEARNED}" means a solved
length below 4. In many undecided models half of the pairs jump to the end of the sequence in the
first layer, so that their patching map is neither a step nor a staircase."""
