"""The tidy table of the geometry lens: rows for single numbers and for a prism."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from statetrace.groups import Group
from statetrace.lenses.parts import prism
from statetrace.lenses.parts.state_means import Array

FEW_PAIRS = 6
"""The most pairs whose distances and angles get rows; with more, only means do."""

_MATCHED_PAIRS = 60  # the most pairs for which the best matching is computed (10 ms for S5)


@dataclass
class Rows:
    """Collects the rows of the tidy table."""

    columns: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                "measure", "layer", "name", "value", "null", "null_low", "null_high", "p", "n",
            )
        }
    )  # fmt: skip

    def add(
        self,
        measure: str,
        layer: int,
        name: str,
        value: float,
        n: int,
        null: float | None = None,
        permuted: Array | None = None,
    ) -> float | None:
        """Add a number with its null: a value, or the values under permuted labels, which also give
        a p-value (the true labels count as one permutation). NaN gets no row."""
        if not np.isfinite(value):
            return None
        low = high = p = None
        if permuted is not None and len(permuted):
            null = float(permuted.mean())
            low, high = (float(edge) for edge in np.percentile(permuted, [2.5, 97.5]))
            p = float((1 + (permuted >= value).sum()) / (1 + len(permuted)))
        row = (measure, layer, name, float(value), null, low, high, p, n)
        for column, entry in zip(self.columns.values(), row, strict=True):
            column.append(entry)
        return p


def add_prism(
    means: Array,
    layer: int,
    among: prism.Pairings,
    group: Group,
    permuted: dict[str, Array],
    rows: Rows,
) -> dict[str, Any]:
    """Add the best pairing of state means [S, D]: score and factors, distances and angles; returns
    them for the summary. `permuted` has "score" and "pairing" under permuted labels."""
    grams, states = prism.gram(means), group.order
    scores = prism.score(grams, among)
    chosen = int(scores.chosen)
    values, p = {}, {}
    for name in ("score", "parity", "pairing", "right_angle", "regularity", "additive"):
        factor = getattr(scores, name)
        if factor is not None:
            values[name] = float(factor)
            p[name] = rows.add(
                "prism", layer, name, values[name], states, permuted=permuted.get(name)
            )
    partners = among.partners[chosen]
    label = group.labels
    pairs = [(label[a], label[b]) for a, b in zip(among.even, partners, strict=True)]
    measured = prism.shape(grams, among, chosen)
    shape = _add_shape(measured, ["+".join(pair) for pair in pairs], layer, states, rows)
    if len(pairs) <= _MATCHED_PAIRS:
        best = among.odd[prism.assignment(prism.pair_costs(grams, among))]
        same = float((best == partners).mean())
        rows.add("pair_agreement", layer, "all", same, states)
    null = permuted["score"]
    return {
        "layer": layer,
        **values,
        "p": p["score"],
        "p_pairing": p["pairing"],
        "null": float(null.mean()) if len(null) else None,
        "by": among.by[chosen],
        **({"pairs": [list(pair) for pair in pairs], **shape} if shape else {}),
    }


def _add_shape(
    measured: prism.ShapeStatistics, names: list[str], layer: int, states: int, rows: Rows
) -> dict[str, list[float]]:
    """Add distances and angles: their means and, for few pairs, each of them; returns the latter
    for the summary."""
    few = len(names) <= FEW_PAIRS
    for measure, distances in (
        ("within_distance", measured.within),
        ("within_complement", measured.within_complement),
    ):
        rows.add(measure, layer, "all", float(distances.mean()), states)
        for name, distance in zip(names, distances, strict=True) if few else ():
            rows.add(measure, layer, name, float(distance), states)
    summary = {}
    i, j = np.array(list(combinations(range(len(names)), 2))).T
    for measure, matrix in (
        ("between_distance", measured.between),
        ("angle", measured.angles),
        ("line_angle", measured.line_angles),
    ):
        each = summary[measure] = matrix[i, j].tolist()
        if not few or measure == "between_distance":  # the mean of three angles in a plane is fixed
            rows.add(measure, layer, "all", float(np.mean(each)), states)
        for a, b, value in zip(i, j, each, strict=True) if few else ():
            rows.add(measure, layer, f"{names[a]} {names[b]}", value, states)
    if not few:
        return {}
    return {
        "angles": summary["angle"],
        "line_angles": summary["line_angle"],
        "within_distance": measured.within.tolist(),
        "between_distance": summary["between_distance"],
    }
