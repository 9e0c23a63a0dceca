"""Measure checkpoints that differ in their weights alone, such as the seeds of a study, at once.

Lenses with a stacked form (models/stack.py) measure all models in the same forward passes; other
lenses take one model after the other. Results are stored as those of a single `Analyzer`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from statetrace.analysis import Analyzer
from statetrace.lenses.registry import LENSES
from statetrace.lenses.result import LensResult
from statetrace.mechanisms.mastery import has_learned, solved_length
from statetrace.models.threads import using_threads


def analyze_together(
    analyzers: Sequence[Analyzer], lens: str, length: int | None = None
) -> list[LensResult]:
    """The results of a lens by checkpoint, as `Analyzer.analyze` would compute them; `length` is
    one shorter than the task's."""
    first = analyzers[0]
    job = first.job(lens, {}, False)
    results = [each.stored_result(job, length) for each in analyzers]
    missing = [number for number, result in enumerate(results) if result is None]
    if missing:
        task = first.loaded.task if length is None else first.loaded.task.at_length(length)
        models = [analyzers[number].loaded.model for number in missing]
        if first.loaded.threads is None:  # models of one shape are equally fast
            for each in analyzers:
                vars(each).setdefault("speed", first.speed)
        with using_threads(first.loaded.threads or first.speed.threads):
            measured = LENSES[lens].look_together(models, task, job.spec)
        for number, result in zip(missing, measured, strict=True):
            about = analyzers[number].loaded.about() | {"spec": repr(job.spec)}
            results[number] = result = dataclasses.replace(result, subject=about)
            analyzers[number].store.put(result, length)
    return [result for result in results if result is not None]


def measure_together(analyzers: Sequence[Analyzer]) -> None:
    """Compute and store what the verdicts need."""
    general = analyze_together(analyzers, "generalization")
    by_length: dict[int, list[Analyzer]] = {}
    for analyzer, result in zip(analyzers, general, strict=True):
        if has_learned(result):
            by_length.setdefault(solved_length(result), []).append(analyzer)
    for length, solvers in by_length.items():
        analyze_together(solvers, "depth", None if length == solvers[0].length else length)
