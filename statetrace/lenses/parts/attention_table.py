"""The tidy table of the attention lens: one number with its spread per row.

    measure        name                        further columns
    head score     the quotient ("parity")     layer, head; percent, as in the paper's Table 2
    by chance      the quotient                layer, head; the same with other actions called odd
    ablation       "state" or the quotient     heads, method, length; share of right answers, and
                                               with no length the mean over all lengths
    ablation drop  "state" or the quotient     heads, method; accuracy lost, paired by example
    attended       tokens                      layer; tokens that attention is spread over
    tree           depth, coverage, distance   (per example)
                   edges, span, reached        layer (reached also has layer 0, the actions)

The spread of "by chance" is over the choices of actions, that of all others over examples.
`heads` is "none", "top 2" or "control 2"; columns that do not apply are None. low and high are the
95% interval of the mean: Wilson's for the accuracy at one length, else the normal one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from statetrace.lenses.parts.attention_tree import TreeMeasures
from statetrace.lenses.parts.intervals import quantile, wilson

COLUMNS = (
    *("measure", "name", "heads", "method", "layer", "head", "length"),
    *("mean", "std", "low", "high", "n"),
)


class Spread(NamedTuple):
    """A mean over examples, None where it cannot be told."""

    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    n: int


def spread(values: np.ndarray) -> Spread:
    """Of the examples that have a value (are not NaN); deviations divide by n - 1."""
    values = np.asarray(values, dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values):
        return Spread(None, None, None, None, 0)
    mean = float(values.mean())
    if len(values) == 1:
        return Spread(mean, None, None, None, 1)
    std = float(values.std(ddof=1))
    half = quantile() * std / len(values) ** 0.5
    return Spread(mean, std, mean - half, mean + half, len(values))


class AttentionTable:
    """Collects rows; `columns` is the table."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}

    def add_scores(self, measure: str, name: str, scores: np.ndarray) -> None:
        """scores [L, H, n] in percent."""
        for layer, heads in enumerate(scores, start=1):
            for head, values in enumerate(heads):
                self._add(measure, name, spread(values), layer=layer, head=head)

    def add_answers(
        self, heads: str, method: str | None, right: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """right: what -> [n, T]. Returns the mean accuracy over all lengths."""
        means = {}
        for what, values in right.items():
            n, length = values.shape
            means[what] = float(values.mean())
            overall = spread(values.mean(1))
            self._add("ablation", what, overall, heads=heads, method=method)
            low, high = wilson(values.sum(0), n)
            for t in range(length):
                at = Spread(float(values[:, t].mean()), None, float(low[t]), float(high[t]), n)
                self._add("ablation", what, at, heads=heads, method=method, length=t + 1)
        return means

    def add_drop(
        self,
        heads: str,
        method: str,
        intact: Mapping[str, np.ndarray],
        right: Mapping[str, np.ndarray],
    ) -> dict[str, float]:
        """The accuracy that each example loses. Returns the mean loss."""
        drops = {}
        for what in right:
            lost = intact[what].mean(1) - right[what].mean(1)  # [n]
            drops[what] = float(lost.mean())
            self._add("ablation drop", what, spread(lost), heads=heads, method=method)
        return drops

    def add_attended(self, tokens: np.ndarray) -> dict[str, list[float | None]]:
        """tokens [L, n]. Returns for the summary, by layer, means and half of their intervals."""
        layers = [spread(values) for values in tokens]
        for layer, found in enumerate(layers, start=1):
            self._add("attended", "tokens", found, layer=layer)
        half = [None if f.high is None or f.mean is None else f.high - f.mean for f in layers]
        return {"mean": [found.mean for found in layers], "error": half}

    def add_trees(self, trees: TreeMeasures) -> dict[str, Any]:
        """Returns the means, for the summary."""
        summary: dict[str, Any] = {}
        for name in ("depth", "coverage", "distance"):
            found = spread(getattr(trees, name))
            summary[f"tree_{name}"] = found.mean
            self._add("tree", name, found)
        for name, first in (("edges", 1), ("span", 1), ("reached", 0)):
            layers = [spread(values) for values in getattr(trees, name).T]
            summary[f"tree_{name}"] = [found.mean for found in layers]
            for layer, found in enumerate(layers, start=first):
                self._add("tree", name, found, layer=layer)
        return summary

    def _add(self, measure: str, name: str, found: Spread, **further: Any) -> None:
        row = {"measure": measure, "name": name} | found._asdict() | further
        for column, values in self.columns.items():
            values.append(row.get(column))
