"""Which mechanism models learn, and what decides it (sections 4, 5.2 and 5.3, appendix H)."""

from __future__ import annotations

from collections import Counter

from reproduction.lens_model import AA, MECHANISMS, PAA
from reproduction.measures.registry import rows
from reproduction.statistics import Counts, Number, mean_difference, share, share_difference
from reproduction.tables import Missing, Row


@rows
def mechanism_share(models: list[Row], mechanism: list[str], by: str = "verdict") -> Number:
    """The share of models with one of these mechanisms. `by` is the column of the verdict;
    "early_verdict" uses the cutoffs midway, as the paper does."""
    models = [row for row in models if row[by] not in (None, "unlearned")]
    wanted = {MECHANISMS.get(name, name) for name in mechanism}
    return share(sum(row[by] in wanted for row in models), len(models))


@rows
def lenses_agree(models: list[Row]) -> Number:
    """Of AA and PAA models, the share to which patching alone and probes alone assign the same
    mechanism, without those that one of the two cannot tell apart."""
    told = [
        r
        for r in models
        if r["verdict"] in (AA, PAA) and r["patching_label"] and r["probing_label"]
    ]
    return share(sum(r["patching_label"] == r["probing_label"] for r in told), len(told))


@rows
def kinds(models: list[Row]) -> Number:
    """How many of AA and PAA occur among models that differ in their seed only."""
    if not models:
        raise Missing("there is no such model")
    counts = Counter(row["verdict"] for row in models)
    detail = ", ".join(f"{counts[m]} {name}" for name, m in MECHANISMS.items())
    return Number(sum(m in counts for m in (AA, PAA)), len(models), "models", unit="mechanisms",
                  detail=detail)  # fmt: skip


@rows
def ahead(models: list[Row], column: str) -> Number:
    """Mean of a column over AA models minus that over PAA models; a cutoff beyond the tried lengths
    counts as one more than the longest."""
    values: dict[str, list[float]] = {AA: [], PAA: []}
    for row in models:
        value = row[column]
        if column == "cutoff" and value is None:
            value = row["longest"] + 1
        if row["verdict"] in values and value is not None:
            values[row["verdict"]].append(float(value))
    sizes = f"{len(values[AA])} AA, {len(values[PAA])} PAA"
    if not values[AA] or not values[PAA]:
        raise Missing(f"too few of either mechanism: {sizes}")
    difference, low, high = mean_difference(values[AA], values[PAA])
    n = len(values[AA]) + len(values[PAA])
    if min(map(len, values.values())) < 2:
        low, high = float("-inf"), float("inf")
    return Number(difference, n, "models", low, high, detail=sizes)


def _counts(first: list[Row], second: list[Row], mechanism: str) -> Counts:
    counts = [sum(row["verdict"] == mechanism for row in group) for group in (first, second)]
    return counts[0], len(first), counts[1], len(second)


def _regime_tables(models: list[Row], regime: str, pairs: list[list[str]] | None) -> list[Counts]:
    """Counts of AA after a regime and from scratch. With `pairs` of studies [scratch, regime], one
    table per pair, with models of the same name and width; otherwise one per model name."""
    tables = []
    for plain_study, study in pairs or [["", ""]]:
        after = [r for r in models if study in ("", r["study"]) and r["regime"] == regime]
        plain = [r for r in models if plain_study in ("", r["study"]) and r["regime"] == "scratch"]
        if pairs:
            kinds = {(r["model"], r["width"]) for r in after}
            strata = [(after, [r for r in plain if (r["model"], r["width"]) in kinds])]
        else:
            names = sorted({r["model"] for r in after})
            strata = [
                ([r for r in after if r["model"] == m], [r for r in plain if r["model"] == m])
                for m in names
            ]
        tables += [_counts(*groups, AA) for groups in strata if all(groups)]
    if not tables:
        raise Missing(f"no models after '{regime}' to compare with models from scratch")
    return tables


@rows
def regime_effect(models: list[Row], regime: str, pairs: list[list[str]] | None = None) -> Number:
    """How much more common AA is after a regime: a difference of shares, stratified by study."""
    tables = _regime_tables(models, regime, pairs)
    a, m, b, n = (sum(column) for column in zip(*tables, strict=True))
    value, low, high = share_difference(tables)
    return Number(value, m + n, "models", low, high, "share", f"AA {a} of {m} against {b} of {n}")


@rows
def width_effect(models: list[Row]) -> Number:
    """How much more common PAA is among the widest models of a study than among the narrowest."""
    tables = []
    for study in sorted({row["study"] for row in models}):
        mine = [row for row in models if row["study"] == study and row["width"] is not None]
        widths = sorted({int(row["width"]) for row in mine})
        if len(widths) > 1:
            ends = [
                [r for r in mine if int(r["width"]) == width] for width in (widths[-1], widths[0])
            ]
            tables.append(_counts(ends[0], ends[1], PAA))
    if not tables:
        raise Missing("no study has models of several widths")
    n = sum(m + k for _, m, _, k in tables)
    value, low, high = share_difference(tables)
    return Number(value, n, "models", low, high, "share")
