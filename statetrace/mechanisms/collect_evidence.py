"""Make the lens results a verdict needs, as far as they are not there yet.

Cost: a few seconds for a small model; the specs below are lighter than the lenses' defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.groups import Quotient
from statetrace.interventions import GridSpec
from statetrace.lenses.attention import AttentionSpec
from statetrace.lenses.depth import DepthSpec
from statetrace.lenses.generalization import GeneralizationSpec
from statetrace.lenses.patching import PatchingSpec
from statetrace.lenses.probing import ProbingSpec
from statetrace.lenses.registry import LENSES
from statetrace.lenses.result import WHOLE, LensResult
from statetrace.mechanisms.compatibility import incompatibility
from statetrace.mechanisms.evidence import NEEDED, first_quotient
from statetrace.mechanisms.mastery import LEARNED, LOOKED_THROUGH, mastered_length
from statetrace.tasks.word_problem import WordProblem

QUICK: dict[str, Any] = {
    "generalization": GeneralizationSpec(),
    "probing": ProbingSpec(subsets=1, controls=(), train=3000, test=1000, most_lengths=6),
    "patching": PatchingSpec(pairs=100, grids=(GridSpec("prefix", "substitution"),)),
    "depth": DepthSpec(pairs=200),
    "attention": AttentionSpec(ablation_sizes=(1,), controls=1, tree_examples=0),
}


def collect_evidence(
    model: Any,
    task: WordProblem,
    have: Mapping[str, LensResult] | None = None,
    tell: Callable[[str, float], None] = lambda lens, share: None,
) -> dict[str, LensResult]:
    """Results by lens; those of `have` that looked at something else than a verdict asks about are
    made again, generalization excepted. `tell` hears of progress.

    Of a model that has not learned the task there is only generalization.
    """
    found: dict[str, LensResult] = dict(have or {})

    def look(lens: str, task: WordProblem) -> None:
        spec = _about(first_quotient(task.group), QUICK[lens])
        try:
            found[lens] = LENSES[lens].look(model, task, spec, lambda s: tell(lens, s))
        except StatetraceError:
            if lens in NEEDED:
                raise  # the others are left out where they do not apply
        tell(lens, 1.0)

    if "generalization" not in found:
        look("generalization", task)
    length = mastered_length(found["generalization"])
    if length < min(LEARNED, task.length):
        return {lens: result for lens, result in found.items() if lens in WHOLE}
    if length != task.length:
        task = task.at_length(length)
    found = {
        lens: result
        for lens, result in found.items()
        if lens in WHOLE or incompatibility(result, task.group, length) is None
    }
    for lens in LOOKED_THROUGH:
        if lens not in found:
            look(lens, task)
    return found


def _about(quotient: Quotient | None, spec: Any) -> Any:
    """The spec, asking for the group's first quotient where that is not parity."""
    if quotient is None or quotient.name == "parity":
        return spec
    if isinstance(spec, ProbingSpec):
        return dataclasses.replace(spec, targets=("state", quotient.name))
    if isinstance(spec, AttentionSpec):
        return dataclasses.replace(spec, quotient=quotient.name)
    return spec
