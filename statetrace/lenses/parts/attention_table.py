"""The tidy table of the attention lens: one number with its spread per row.

    measure        name                        further columns
    head score     the quotient ("parity")     layer, head; percent, as in the paper's Table 2
    by chance      the quotient                layer, head; the same with other actions as odd
    ablation       "state" or the quotient     heads, method, length; accuracy, and without length
                                               the mean over all lengths
    ablation drop  "state" or the quotient     heads, method; accuracy lost, paired by example
    attended       tokens                      layer; effective number of attended tokens
    tree           depth, coverage, distance   (per example)
                   edges, span, reached        layer (reached also has layer 0, the actions)

The spread of "by chance" is over the choices of actions, all others over examples.
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
    """A mean over examples; None if it cannot be computed."""

    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    n: int


def spread(values: np.ndarray) -> Spread:
    """Over the examples that are not NaN; standard deviations divide by n - 1."""
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
        self, heads: str, method: str | None, correct: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """correct: what -> [n, T]. Returns the mean accuracy over all lengths."""
        means = {}
        for what, values in correct.items():
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
        correct: Mapping[str, np.ndarray],
    ) -> dict[str, float]:
        """The accuracy lost per example. Returns the mean."""
        drops = {}
        for what in correct:
            lost = intact[what].mean(1) - correct[what].mean(1)  # [n]
            drops[what] = float(lost.mean())
            self._add("ablation drop", what, spread(lost), heads=heads, method=method)
        return drops

    def add_attended(self, tokens: np.ndarray) -> dict[str, list[float | None]]:
        """tokens [L, n]. Returns means and half-widths of their intervals by layer."""
        layers = [spread(values) for values in tokens]
        for layer, count in enumerate(layers, start=1):
            self._add("attended", "tokens", count, layer=layer)
        half = [None if c.high is None or c.mean is None else c.high - c.mean for c in layers]
        return {"mean": [count.mean for count in layers], "error": half}

    def add_trees(self, trees: TreeMeasures) -> dict[str, Any]:
        """Returns the means, for the summary."""
        summary: dict[str, Any] = {}
        for name in ("depth", "coverage", "distance"):
            value = spread(getattr(trees, name))
            summary[f"tree_{name}"] = value.mean
            self._add("tree", name, value)
        for name, first in (("edges", 1), ("span", 1), ("reached", 0)):
            layers = [spread(values) for values in getattr(trees, name).T]
            summary[f"tree_{name}"] = [value.mean for value in layers]
            for layer, value in enumerate(layers, start=first):
                self._add("tree", name, value, layer=layer)
        return summary

    def _add(self, measure: str, name: str, value: Spread, **further: Any) -> None:
        row = {"measure": measure, "name": name} | value._asdict() | further
        for column, values in self.columns.items():
            values.append(row.get(column))
