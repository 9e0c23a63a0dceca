"""Numbers from many runs: shares of mechanisms, cutoffs, what was known early (section 5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from statetrace.lenses.parts.intervals import wilson
from statetrace.reproduction.measured import Measure, Measured, mean_gap, share_of
from statetrace.reproduction.results import Results, Row, study_file
from statetrace.studies.folder import FINISHED
from statetrace.studies.proportions import SHUFFLES, associations

AA, PAA = "associative", "parity-associative"
UNLEARNED = "unlearned"
EARLY, FULL = "early_verdict", "full"
"""Verdicts by cutoffs midway, and those by all lenses at the end: see `judged`."""
SCRATCH = "scratch"
"""The regime of models that were taught nothing before."""


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
    """How much larger a column's mean is for AA than for PAA models, resampled for its interval."""

    def measure(found: Results) -> Measured:
        rows = judged(found, studies, "verdict", **where)
        a, b = (
            np.array([_or_longest(row, column) for row in rows if row["verdict"] == name])
            for name in (AA, PAA)
        )
        sources = tuple(map(study_file, found.present(studies)))
        if min(len(a), len(b)) < 2:
            return Measured(None, words="too few of either mechanism", sources=sources)
        value, low, high = mean_gap(a, b)
        words = f"AA {a.mean():.3g} ({len(a)} models), PAA {b.mean():.3g} ({len(b)})"
        return Measured(
            value, len(rows), "models", low, high, words=words, sources=sources, size=sizes(rows)
        )

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


def factor_p(factor: str, study: str, verdict: str, **where: Any) -> Measure:
    """p of a factor, by shuffling verdicts (studies/proportions.py); its interval is that of so
    many shuffles."""

    def measure(found: Results) -> Measured:
        rows = [row | {"state": FINISHED} for row in judged(found, (study,), verdict, **where)]
        known = associations(rows, [factor], verdict) if rows else []
        if not found.present((study,)):
            return Measured(None)
        sources = (study_file(study),)
        if not known:
            return Measured(None, words=f"fewer than two levels of {factor}", sources=sources)
        if len({row[verdict] for row in rows}) == 1:
            words = f"all {len(rows)} models alike, so that nothing can tell them apart"
            return Measured(None, words=words, sources=sources)
        levels = sorted({str(row[factor]) for row in rows}, key=lambda level: (len(level), level))
        counts = [
            (sum(row[verdict] == PAA for row in here), len(here))
            for here in ([row for row in rows if str(row[factor]) == level] for level in levels)
        ]
        words = f"p by {SHUFFLES:,} shuffles; PAA " + ", ".join(
            f"{count} of {n} at {factor} {level}"
            for level, (count, n) in zip(levels, counts, strict=True)
        )
        p, drawn = known[0]["p"], SHUFFLES + 1  # as it is: the measured order counts as one
        low, high = map(float, wilson(np.array(p * drawn), drawn))
        return Measured(
            p, len(rows), "models", low, high, words=words, sources=sources, size=sizes(rows)
        )

    return measure


def beside(
    found: Results, regime: str, studies: tuple[str, str], by: str
) -> tuple[list[Row], list[Row]]:
    """Models from scratch, and those after stages whose name begins so, of the same family and
    width. The studies are that of the former, by itself or as a regime, and that of the latter."""
    plain, after = (judged(found, (study,), by) for study in studies)
    after = [row for row in after if str(row["regime"]).startswith(regime)]
    alike = {(row["model"], row["width"]) for row in after}
    plain = [
        row
        for row in plain
        if (row["model"], row["width"]) in alike and row.get("regime") in (None, "", SCRATCH)
    ]
    return plain, after


MORE, FEWER, OTHER = "more", "fewer", "other"
"""What `pushed` asks of AA: whether it is more common, less, or either."""


def pushed(
    regime: str,
    way: str = MORE,
    studies: tuple[str, str] = ("small", "small-regimes"),
    by: str = EARLY,
) -> Measure:
    """p that AA is no more (less, other) common after stages whose name begins so than from
    scratch, among models of the same family and width, `by` their verdicts midway in training or
    at its end. Fisher's exact test. The studies are that of models from scratch, by itself or as a
    regime, and that of others."""

    def measure(found: Results) -> Measured:
        plain, after = beside(found, regime, studies, by)
        sources = tuple(map(study_file, found.present(dict.fromkeys(studies))))
        if not plain or not after:
            return Measured(None, words="too few models", sources=sources)
        a, b = (sum(row[by] == AA for row in rows) for rows in (after, plain))
        more = _at_least(a, len(after), b, len(plain))
        fewer = _at_least(len(after) - a, len(after), len(plain) - b, len(plain))
        p = {MORE: more, FEWER: fewer, OTHER: min(1.0, 2 * min(more, fewer))}[way]
        words = f"AA in {a} of {len(after)} after such stages, in {b} of {len(plain)} from scratch"
        n = len(after) + len(plain)
        return Measured(p, n, "models", words=words, sources=sources, size=sizes(plain + after))

    return measure


def _at_least(a: int, of: int, b: int, of_others: int) -> float:
    """Chance of `a` or more among the first, if all a + b were spread at random."""
    ways = [
        math.comb(of, k) * math.comb(of_others, a + b - k) for k in range(a, min(of, a + b) + 1)
    ]
    return sum(ways) / math.comb(of + of_others, a + b)


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
