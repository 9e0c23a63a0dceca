"""Which lens results a verdict can use: those that looked at what it asks about. Needs no torch.

People also look with settings of their own (`analyze --set`). Other seeds, more sequences or
somewhat fewer, and what a verdict does not read leave its question as it is. Other lengths, grids
or targets ask another one, and its answer must not be taken for that to the verdict's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statetrace.groups import Group
from statetrace.lenses.parts.lengths import choose_lengths, usual_lengths
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.evidence import PREFIX_GRID, first_quotient, splits_of

FEWER = 4
"""A result with this many times fewer sequences is still accepted: errors at most double."""

COUNTS: dict[str, dict[str, int]] = {
    "generalization": {"sequences": 1000},
    "probing": {"train": 3000, "test": 1000, "max_iterations": 1000},
    "patching": {"pairs": 100},
    "depth": {"pairs": 200},
    "attention": {"examples": 100, "ablation_examples": 256, "relabelings": 5},
}
"""How many `collect_evidence` takes; a test compares the two."""

SAME: dict[str, dict[str, Any]] = {
    "generalization": {"threshold": 0.98},
    "probing": {"C": 1.0, "tolerance": 1e-4},
    "patching": {"corrupt_at": 0},
    "attention": {"first": 5, "confidence": 0.95, "margin": 0.95},
    "dynamics": {"until": None},
}
"""Settings that a number of the verdict's relies on, as `collect_evidence` has them."""

PROBED = 6
"""Lengths with probes of their own that `collect_evidence` takes at most; fewer are too few."""


def incompatibility(result: LensResult, group: Group, length: int) -> str | None:
    """Why a verdict about sequences of that length cannot use a result, in a few words; None where
    it can."""
    spec = result.spec
    found = list(_OF_LENS[result.lens](result, group, length)) if result.lens in _OF_LENS else []
    for name, wanted in SAME.get(result.lens, {}).items():
        found += _instead(name, spec.get(name, wanted), wanted)
    for name, usual in COUNTS.get(result.lens, {}).items():
        if FEWER * spec.get(name, usual) < usual:
            found.append(f"{name} {spec[name]} instead of {-(-usual // FEWER)} or more")
    return ", ".join(found) or None


def _instead(name: str, found: Any, wanted: Any) -> Iterator[str]:
    if found != wanted:
        yield f"{name} {_shown(found)} instead of {_shown(wanted)}"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _generalization(result: LensResult, group: Group, length: int) -> Iterator[str]:
    """Up to twice the training length, or as far as the model can read."""
    trained, longest = (int(result.summary[name]) for name in ("training_length", "longest"))
    readable = result.summary.get("readable", longest)  # older results do not say
    wanted = 2 * trained if readable is None else max(trained, min(2 * trained, readable))
    yield from _instead("longest", longest, wanted)


def _probing(result: LensResult, group: Group, length: int) -> Iterator[str]:
    lengths = result.arrays["lengths"].tolist() if "lengths" in result.arrays else []
    most = max(PROBED, int(result.spec.get("most_lengths", PROBED)))
    yield from _instead("lengths", lengths, list(choose_lengths(length, None, most)))
    quotient = first_quotient(group)
    for name in ["state"] if quotient is None else ["state", quotient.name]:
        if f"{name}/none/probability" not in result.arrays:
            yield f"targets without {name}"


def _patching(result: LensResult, group: Group, length: int) -> Iterator[str]:
    yield from _instead("length", result.summary.get("length"), length)
    grids = result.spec.get("grid_names", [PREFIX_GRID])
    if PREFIX_GRID not in grids:
        yield f"grids {_shown(grids)} without {PREFIX_GRID}"
    quotient = first_quotient(group)
    if quotient is not None and not {*splits_of(quotient.name).values()} <= {*_splits(result)}:
        yield f"quotients without {quotient.name}"


def _splits(patching: LensResult) -> Mapping[str, Any]:
    found: Mapping[str, Any] = patching.summary.get("pairs_by_split", {})
    return found


def _depth(result: LensResult, group: Group, length: int) -> Iterator[str]:
    found = list(result.summary.get("lengths", []))
    yield from _instead("lengths", found, list(usual_lengths(length)))


def _attention(result: LensResult, group: Group, length: int) -> Iterator[str]:
    yield from _instead("last", result.spec.get("last"), length)
    quotient = first_quotient(group)
    asked = result.spec.get("quotient", "parity")  # which is also what stands in for it
    if quotient is not None and asked not in ("parity", quotient.name):
        yield from _instead("quotient", asked, quotient.name)
    sizes = list(result.spec.get("ablation_sizes", [1]))
    if 1 not in sizes:
        yield f"ablation_sizes {_shown(sizes)} without 1"


_OF_LENS = {
    "generalization": _generalization,
    "probing": _probing,
    "patching": _patching,
    "depth": _depth,
    "attention": _attention,
}
