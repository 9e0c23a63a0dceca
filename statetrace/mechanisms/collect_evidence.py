"""Compute the missing lens results of a verdict.

Cost: a few seconds for a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.lenses.registry import LENSES, WHOLE, make_spec
from statetrace.lenses.result import LensResult, no_progress
from statetrace.mechanisms.compatibility import SETTINGS, incompatibility
from statetrace.mechanisms.evidence import first_quotient
from statetrace.mechanisms.mastery import NEEDED, has_learned, solved_length
from statetrace.tasks.word_problem import WordProblem


def collect_evidence(
    model: Any,
    task: WordProblem,
    known: Mapping[str, LensResult] | None = None,
    run_lens: Callable[[str, Any, WordProblem], LensResult] | None = None,
    lenses: Sequence[str] = NEEDED,
) -> dict[str, LensResult]:
    """Results by lens. Of the `known` ones, those that answer a different question are computed
    again, generalization excepted. A model that has not learned the task has only generalization.
    `run_lens(lens, spec, task)` computes a result; by default nothing is stored.
    """
    results: dict[str, LensResult] = dict(known or {})

    def compute(lens: str, task: WordProblem) -> None:
        spec = make_spec(lens, lighter_settings(lens, task.group))
        try:
            if run_lens is None:
                results[lens] = LENSES[lens].look(model, task, spec, no_progress)
            else:
                results[lens] = run_lens(lens, spec, task)
        except StatetraceError:
            if lens in NEEDED:
                raise  # the others are left out where they do not apply

    if "generalization" not in results:
        compute("generalization", task)
    if not has_learned(results["generalization"]):
        return {lens: result for lens, result in results.items() if lens in WHOLE}
    length = solved_length(results["generalization"])
    if length != task.length:
        task = task.at_length(length)
    results = {
        lens: result
        for lens, result in results.items()
        if lens in WHOLE or incompatibility(result, task.group, length) is None
    }
    for lens in lenses:
        if lens not in results:
            compute(lens, task)
    return results


def lighter_settings(lens: str, group: Group) -> dict[str, Any]:
    """A lens's settings for a verdict, which `analyze` uses too; where the group's first quotient
    is not parity, that one. Registered lenses have none."""
    quotient = first_quotient(group)
    if quotient is None or quotient.name == "parity":
        return LIGHTER.get(lens, {})
    by_quotient: dict[str, dict[str, Any]] = {
        "probing": {"targets": ("state", quotient.name)},
        "attention": {"quotient": quotient.name},
    }
    return LIGHTER.get(lens, {}) | by_quotient.get(lens, {})


LIGHTER = SETTINGS | {"geometry": {"sequences": 2000, "permutations": 200}}
