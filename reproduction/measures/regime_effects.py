"""How common a mechanism is in one group of models against another: after something was taught
before, and by size. Groups of several studies are pooled, each compared within its study alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from reproduction.measured import Measure, Measured
from reproduction.measures.studies import AA, PAA, judged, sizes
from reproduction.results import Results, Row, study_file

SCRATCH = "scratch"
"""The regime of models that were taught nothing before."""

MORE, FEWER = "more", "fewer"
"""What `pushed` asks of AA: whether it is more common, or less."""

Pair = tuple[str, str]
"""Two studies: that of models to compare with, and that of models after such stages."""

Table = tuple[int, int, int, int]
"""How many of how many in one group, and how many of how many in the other."""


def beside(
    found: Results, regime: str, studies: Pair, against: str = SCRATCH
) -> tuple[list[Row], list[Row]]:
    """Models from scratch (or after stages of another name, `against`), and those after stages
    whose name begins so, of the same family and width."""
    plain, after = (judged(found, (study,), "verdict") for study in studies)
    after = [row for row in after if str(row["regime"]).startswith(regime)]
    alike = {(row["model"], row["width"]) for row in after}
    other = (None, "", SCRATCH) if against == SCRATCH else (against,)
    plain = [
        row for row in plain if (row["model"], row["width"]) in alike and row.get("regime") in other
    ]
    return plain, after


def pushed(regime: str, way: str, *pairs: Pair, against: str = SCRATCH) -> Measure:
    """p that AA is no more (or less) common after stages whose name begins so than from scratch, or
    than after stages of another name, among models of the same family and width: Fisher's exact
    test, of several pairs of studies that of them all."""

    def measure(found: Results) -> Measured:
        tables, made = _after(found, regime, pairs, against)
        turned = tables if way == MORE else [(m - a, m, n - b, n) for a, m, b, n in tables]
        return replace(made, value=at_least(turned)) if tables else made

    return measure


def moved(regime: str, *pairs: Pair) -> Measure:
    """How much more common AA is after such stages than from scratch, otherwise as `pushed`."""

    def measure(found: Results) -> Measured:
        tables, made = _after(found, regime, pairs, SCRATCH)
        return _gap(made, tables) if tables else made

    return measure


def by_width(*studies: str, model: str) -> Measure:
    """How much more common PAA is among the widest models of a study than among the narrowest."""

    def measure(found: Results) -> Measured:
        both = []
        for study in found.present(studies):
            rows = judged(found, (study,), "verdict", model=model)
            widths = sorted({int(row["width"]) for row in rows})
            if len(widths) > 1:
                ends = (widths[-1], widths[0])
                both.append(tuple([r for r in rows if int(r["width"]) == end] for end in ends))
        names = ("of the widest", "of the narrowest")
        tables, made = _counted(found, both, PAA, names, studies)
        return _gap(made, tables) if tables else made

    return measure


def _after(
    found: Results, regime: str, pairs: tuple[Pair, ...], against: str
) -> tuple[list[Table], Measured]:
    both = [beside(found, regime, pair, against) for pair in pairs]
    names = ("after such stages", "from scratch" if against == SCRATCH else f"after {against}")
    turned = [(after, plain) for plain, after in both]
    return _counted(found, turned, AA, names, tuple(name for pair in pairs for name in pair))


def _counted(
    found: Results,
    both: Sequence[tuple[list[Row], ...]],
    mechanism: str,
    names: tuple[str, str],
    studies: tuple[str, ...],
) -> tuple[list[Table], Measured]:
    """How many models of a mechanism there are in two groups (that have `names`) of each study; and
    what there is to say of it but the number."""
    both = [groups for groups in both if all(groups)]
    sources = tuple(map(study_file, found.present(dict.fromkeys(studies))))
    if not both:
        return [], Measured(None, words="too few models", sources=sources)
    tables, words = [], []
    for groups in both:
        counts = [sum(row["verdict"] == mechanism for row in rows) for rows in groups]
        tables.append((counts[0], len(groups[0]), counts[1], len(groups[1])))
        said = zip(counts, groups, names, strict=True)
        words.append(", ".join(f"{count} of {len(rows)} {name}" for count, rows, name in said))
    rows = [row for groups in both for group in groups for row in group]
    short = {AA: "AA", PAA: "PAA"}[mechanism]
    made = Measured(None, len(rows), "models", words=f"{short} in {'; in '.join(words)}",
                    sources=sources, size=sizes(rows))  # fmt: skip
    return tables, made


def at_least(tables: list[Table]) -> float:
    """Chance of as many in the first groups of all tables together, or more, if within each table
    all were spread at random."""
    wanted = sum(a for a, _, _, _ in tables)
    chance = [1.0]  # by how many are in the first groups
    for a, m, b, n in tables:
        ways = [math.comb(m, k) * math.comb(n, max(a + b - k, 0)) for k in range(m + 1)]
        ways[a + b + 1 :] = [0] * len(ways[a + b + 1 :])
        longer = [0.0] * (len(chance) + m)
        for (i, before), (k, way) in product(enumerate(chance), enumerate(ways)):
            longer[i + k] += before * way / math.comb(m + n, a + b)
        chance = longer
    return min(1.0, sum(chance[wanted:]))


def gap(tables: list[Table]) -> tuple[float, float, float]:
    """How much larger the first groups' share is, and its interval: differences within tables,
    weighted by how much each can tell (Mantel and Haenszel), of counts to which a success and a
    failure were added in each group (Agresti and Caffo), as few models need it."""
    weights = [m * n / (m + n) for _, m, _, n in tables]
    value, variance = 0.0, 0.0
    for weight, (a, m, b, n) in zip(weights, tables, strict=True):
        p, q = (a + 1) / (m + 2), (b + 1) / (n + 2)
        part = weight / sum(weights)
        value += part * (p - q)
        variance += part**2 * (p * (1 - p) / (m + 2) + q * (1 - q) / (n + 2))
    wide = 1.96 * math.sqrt(variance)
    return value, value - wide, value + wide


def _gap(made: Measured, tables: list[Table]) -> Measured:
    value, low, high = (100 * end for end in gap(tables))
    return replace(made, value=value, low=low, high=high, unit="points")
