"""The lens settings of a verdict, and which stored results answer its question. Needs no torch.

Results of `analyze` may have other settings. Other seeds, more sequences or somewhat fewer, and
whatever a verdict does not read leave its question unchanged. Other lengths, grids or targets
answer a different question, and such results are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statetrace.groups import Group
from statetrace.lenses.parts.lengths import choose_lengths, usual_lengths
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.evidence import PREFIX_GRID, first_quotient, splits_of

SETTINGS: dict[str, dict[str, Any]] = {
    "generalization": {"sequences": 1000, "threshold": 0.98},
    "probing": {
        "subsets": 1,
        "controls": (),
        "train": 3000,
        "test": 1000,
        "most_lengths": 6,
        "max_iterations": 1000,
        "C": 1.0,
        "tolerance": 1e-4,
    },
    "patching": {"pairs": 100, "grids": (PREFIX_GRID,), "corrupt_at": 0},
    "depth": {"pairs": 200},
    "attention": {
        "examples": 100,
        "ablation_examples": 256,
        "ablation_sizes": (1,),
        "relabelings": 5,
        "controls": 1,
        "tree_examples": 0,
        "first": 5,
        "confidence": 0.95,
        "margin": 0.95,
    },
    "dynamics": {"until": None},
}
"""By lens; lighter than the lenses' defaults."""

COUNTS = frozenset({
    "sequences", "train", "test", "max_iterations", "pairs",
    "examples", "ablation_examples", "relabelings",
})  # fmt: skip
FEWER = 4
"""A stored result may have this many times fewer of these: its errors at most double."""

FIXED = frozenset({
    "threshold", "C", "tolerance", "corrupt_at", "first", "confidence", "margin", "until",
})  # fmt: skip
"""Settings that a number of the verdict depends on."""


def incompatibility(result: LensResult, group: Group, length: int) -> str | None:
    """Why a verdict about sequences of that length cannot use a result, in a few words; None where
    it can."""
    spec = result.spec
    check = _CHECKS.get(result.lens)
    reasons = [] if check is None else list(check(result, group, length))
    for name, usual in SETTINGS.get(result.lens, {}).items():
        if name in FIXED:
            reasons += _instead(name, spec.get(name, usual), usual)
        elif name in COUNTS and FEWER * spec.get(name, usual) < usual:
            reasons.append(f"{name} {spec[name]} instead of {-(-usual // FEWER)} or more")
    return ", ".join(reasons) or None


def _instead(name: str, actual: Any, required: Any) -> Iterator[str]:
    if actual != required:
        yield f"{name} {_shown(actual)} instead of {_shown(required)}"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _generalization(result: LensResult, group: Group, length: int) -> Iterator[str]:
    """Up to twice the training length, or as long as the model can read."""
    trained, longest = (int(result.summary[name]) for name in ("training_length", "longest"))
    readable = result.summary.get("readable", longest)  # not recorded in older results
    required = 2 * trained if readable is None else max(trained, min(2 * trained, readable))
    yield from _instead("longest", longest, required)


def _probing(result: LensResult, group: Group, length: int) -> Iterator[str]:
    lengths = result.arrays["lengths"].tolist() if "lengths" in result.arrays else []
    usual = SETTINGS["probing"]["most_lengths"]
    most = max(usual, int(result.spec.get("most_lengths", usual)))
    yield from _instead("lengths", lengths, list(choose_lengths(length, None, most)))
    quotient = first_quotient(group)
    for name in ["state"] if quotient is None else ["state", quotient.name]:
        if f"{name}/none/probability" not in result.arrays:
            yield f"targets without {name}"


def _patching(result: LensResult, group: Group, length: int) -> Iterator[str]:
    yield from _instead("length", result.summary.get("length"), length)
    yield from _instead("average", result.spec.get("average", "mean"), "mean")
    grids = result.spec.get("grid_names", [PREFIX_GRID])
    if PREFIX_GRID not in grids:
        yield f"grids {_shown(grids)} without {PREFIX_GRID}"
    quotient = first_quotient(group)
    measured = result.summary.get("pairs_by_split", {})
    if quotient is not None and not {*splits_of(quotient.name).values()} <= {*measured}:
        yield f"quotients without {quotient.name}"


def _depth(result: LensResult, group: Group, length: int) -> Iterator[str]:
    lengths = list(result.summary.get("lengths", []))
    yield from _instead("lengths", lengths, list(usual_lengths(length)))
    if "links" not in result.summary:
        yield "measured by an older version"


def _attention(result: LensResult, group: Group, length: int) -> Iterator[str]:
    yield from _instead("last", result.spec.get("last"), length)
    quotient = first_quotient(group)
    scored = result.spec.get("quotient", "parity")  # where there is no parity, the first quotient
    if quotient is not None and scored not in ("parity", quotient.name):
        yield from _instead("quotient", scored, quotient.name)
    sizes = list(result.spec.get("ablation_sizes", [1]))
    if 1 not in sizes:
        yield f"ablation_sizes {_shown(sizes)} without 1"


_CHECKS = {
    "generalization": _generalization,
    "probing": _probing,
    "patching": _patching,
    "depth": _depth,
    "attention": _attention,
}
