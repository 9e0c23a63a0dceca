"""Numbers from many runs: shares of mechanisms, cutoffs, what was known early (section 5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from reproduction.measured import Measure, Measured, mean_gap, share_of
from reproduction.results import Results, Row, study_file
from statetrace.studies.folder import FINISHED

AA, PAA = "associative", "parity-associative"
UNLEARNED = "unlearned"
EARLY, FULL = "early_verdict", "full"
"""Verdicts by cutoffs midway, and those by all lenses at the end: see `judged`."""


def judged(found: Results, studies: tuple[str, ...], verdict: str, **where: Any) -> list[Row]:
    """Cells that learned the task, with a verdict: that of finished cells (by all lenses, or by
    cutoffs alone, as the study says), that of all lenses alone (FULL), or early ones (EARLY). A
    study that has no results yet has no cells."""
    early, full = verdict == EARLY, verdict == FULL
    column = "verdict" if full else verdict
    return [
        row
        for study in found.present(studies)
        for row in found.study(study)
        if (early or row["state"] == FINISHED)
        and row[column] not in (None, UNLEARNED)
        and not (full and row.get("confidence") is None)  # cutoffs alone have none
        and all(str(row.get(name)) == str(value) for name, value in where.items())
    ]


def sizes(rows: list[Row]) -> str:
    """How large the models of these cells are; a published size goes by its name alone."""
    levels = {
        name: _levels(sorted({row[name] for row in rows if row[name] is not None}))
        for name in ("model", "layers", "width", "group", "length")
    }
    parts = [
        levels["model"],
        levels["layers"] and f"{levels['layers']} layers",
        levels["width"] and f"width {levels['width']}",
        levels["group"],
        f"length {levels['length']}",
        so_far(rows),
    ]
    return ", ".join(filter(None, parts))


def so_far(rows: list[Row]) -> str:
    """ "after 10,000 of 140,625 steps", where all were looked at before the end."""
    ended = {(row["step"], row.get("steps")) for row in rows if row["step"] is not None}
    if len(ended) != 1:
        return ""
    step, planned = ended.pop()
    return f"after {step:,} of {planned:,} steps" if planned and step < planned else ""


def _levels(values: list[Any]) -> str:
    return " / ".join(map(str, values))


def share(
    mechanism: str | tuple[str, ...],
    *studies: str,
    verdict: str = "verdict",
    **where: Any,
) -> Measure:
    """Of the models that learned the task, the share with this mechanism."""
    wanted = (mechanism,) if isinstance(mechanism, str) else mechanism
    column = "verdict" if verdict == FULL else verdict

    def measure(found: Results) -> Measured:
        there = found.present(studies)
        rows = judged(found, there, verdict, **where)
        asked = sum(
            all(str(row.get(name)) == str(value) for name, value in where.items())
            for study in there
            for row in found.study(study)
        )
        if not asked:
            return Measured(None)
        words = [f"by cutoffs at step {_steps(rows)}"] if verdict == EARLY and rows else []
        words += [f"of {asked} planned"] if len(rows) < asked else []
        if not rows:
            words = [f"none of {asked} planned models has a verdict"]
        count = sum(row[column] in wanted for row in rows)
        sources = tuple(map(study_file, there))
        return share_of(count, len(rows), "models", sources, "; ".join(words), sizes(rows))

    return measure


def _steps(rows: list[Row]) -> str:
    return ", ".join(f"{step:,}" for step in sorted({row["early_step"] for row in rows}))


def share_where(
    test: Callable[[Row], bool],
    *studies: str,
    among: Callable[[Row], bool] = lambda row: True,
    mechanism: str | None = None,
) -> Measure:
    """Of finished models (of a mechanism, and `among` those), the share that pass a test."""

    def measure(found: Results) -> Measured:
        rows = [
            row
            for row in judged(found, studies, "verdict")
            if mechanism in (None, row["verdict"]) and among(row)
        ]
        if not found.present(studies):
            return Measured(None)
        count = sum(test(row) for row in rows)
        sources = tuple(map(study_file, found.present(studies)))
        return share_of(count, len(rows), "models", sources, _by_cutoffs(rows), sizes(rows))

    return measure


def _by_cutoffs(rows: list[Row]) -> str:
    """Said where verdicts looked at nothing but accuracy: what follows about cutoffs is not much
    news then."""
    quick = {row["step"] for row in rows if row.get("confidence") is None}
    steps = ", ".join(f"{step:,}" for step in sorted(quick))
    return f"verdicts by accuracy alone, at step {steps}" if quick else ""


def ahead(column: str, *studies: str, **where: Any) -> Measure:
    """How much larger a column's mean is for AA than for PAA models, resampled for its interval,
    which a single model of a kind has none of."""

    def measure(found: Results) -> Measured:
        rows = judged(found, studies, "verdict", **where)
        a, b = (
            np.array([_or_longest(row, column) for row in rows if row["verdict"] == name])
            for name in (AA, PAA)
        )
        sources = tuple(map(study_file, found.present(studies)))
        if min(len(a), len(b)) < 1:
            return Measured(None, words="too few of either mechanism", sources=sources)
        value, low, high = mean_gap(a, b)
        several = min(len(a), len(b)) > 1
        words = f"AA {a.mean():.3g} ({len(a)} models), PAA {b.mean():.3g} ({len(b)})"
        made = Measured(value, len(rows), "models", words=words, sources=sources, size=sizes(rows))
        return replace(made, low=low, high=high) if several else made

    return measure


def _or_longest(row: Row, column: str) -> float:
    """A number of a row; a cutoff that lies beyond what was tried counts as one past that."""
    value = row[column]
    return float(row["longest"] + 1 if value is None else value)


def share_gap(
    mechanism: str, study: str, factor: str, levels: tuple[str, str], verdict: str
) -> Measure:
    """How much larger a share is at the first of two levels; Newcombe's interval."""

    def measure(found: Results) -> Measured:
        one, two = (
            share(mechanism, study, verdict=verdict, **{factor: level})(found) for level in levels
        )
        if one.value is None or two.value is None:
            return Measured(None, words="nothing to compare", sources=one.sources)
        assert None not in (one.low, one.high, two.low, two.high)
        gap = one.value - two.value
        down = math.hypot(one.value - one.low, two.high - two.value)  # type: ignore[operator]
        up = math.hypot(one.high - one.value, two.value - two.low)  # type: ignore[operator]
        words = f"{levels[0]} {one.words}; {levels[1]} {two.words}"
        rows = [
            row for level in levels for row in judged(found, (study,), verdict, **{factor: level})
        ]
        return Measured(gap, one.n + two.n, "models", gap - down, gap + up, words=words,
                        sources=one.sources, size=sizes(rows))  # fmt: skip

    return measure


def after_stage(study: str, test: Callable[[Row, str], bool]) -> Measure:
    """Of the models whose sequences became longer from stage to stage, the share that pass a test
    at the end of the stage before the last (`stages.py`), told that and their mechanism."""

    def measure(found: Results) -> Measured:
        file = f"results/{study}/stages.csv"
        ends = {row["cell"]: row for row in found.table(file)}  # the last row of each
        models = [row for row in judged(found, (study,), "verdict") if row["cell"] in ends]
        passed = [test(ends[row["cell"]], row["verdict"]) for row in models]
        tally = [f"{kind} {count}" for kind, count in Counter(r["verdict"] for r in models).items()]
        lengths = {(end["length"], end["next"]) for end in ends.values()}
        words = ", ".join(f"lengths {one} and {two}" for one, two in sorted(lengths))
        sources = (file, study_file(study))
        said = "; ".join([words, *tally])
        return share_of(sum(passed), len(models), "models", sources, said, sizes(models))

    return measure
