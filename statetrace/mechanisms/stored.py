"""Which stored lens results a verdict can use. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.lenses.fingerprint import differ
from statetrace.lenses.registry import WHOLE
from statetrace.lenses.result import LensResult
from statetrace.lenses.store import Store
from statetrace.mechanisms.compatibility import incompatibility
from statetrace.mechanisms.mastery import solved_length


@dataclass
class StoredResults:
    """Stored results of one checkpoint.

    Attributes:
        weights: fingerprint of an external checkpoint; if its files are gone, that of its results.
        usable: those that a verdict can use, all at the length of the verdict.
        unusable: lens -> why a verdict cannot use the stored result, which is left as it is.
        outdated: lenses whose results describe other weights.
        damaged: lens -> which file is damaged, as a sentence.
    """

    weights: str | None
    usable: dict[str, LensResult] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)

    def ignored(self) -> str | None:
        """The results that are not used, in one sentence."""
        reasons = [f"{lens} ({why})" for lens, why in (self.unusable | self.damaged).items()]
        if self.outdated:
            reasons.append(f"{', '.join(self.outdated)} (computed from other weights)")
        return f"ignored; recomputed where needed: {'; '.join(reasons)}" if reasons else None


def stored_results(
    store: Store,
    lenses: Sequence[str],
    group: Group,
    length: int,
    step: int | None,
    weights: str | None,
) -> StoredResults:
    """Stored results of a checkpoint, generalization first: a model that fails at its own length is
    judged at the longest length that it solves."""
    stored = StoredResults(weights)
    solved = length
    for lens in lenses:
        try:
            result = store.get(lens, None if lens in WHOLE or solved == length else solved)
        except StatetraceError as error:
            stored.damaged[lens] = str(error)
            continue
        if result is None or result.subject.get("step") != step:
            continue
        stored.weights = stored.weights or result.subject.get("weights")
        reason = incompatibility(result, group, solved)
        if differ(result.subject.get("weights"), stored.weights):
            stored.outdated.append(lens)
        elif reason is not None:
            stored.unusable[lens] = reason
        else:
            stored.usable[lens] = result
            solved = solved_length(result) if lens == "generalization" else solved
    return stored
