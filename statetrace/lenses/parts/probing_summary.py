"""Summaries of the probing table: grids over layers and lengths, curves, first layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]


def by_length(rows: Sequence[Row], lengths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """ "target/control/metric" -> means [layers, lengths] at the last token, and the lengths."""
    layers = 1 + max(row["layer"] for row in rows)
    grids: dict[str, np.ndarray] = {"lengths": np.asarray(lengths)}
    for row in rows:
        if row["position"] == "last":
            name = f"{row['target']}/{row['control']}/{row['metric']}"
            grid = grids.setdefault(name, np.full((layers, len(lengths)), np.nan))
            grid[row["layer"], lengths.index(row["length"])] = row["mean"]
    return grids


def summary(rows: Sequence[Row], lengths: tuple[int, ...], threshold: float) -> dict[str, Any]:
    """The summary of the lens.

    curves: control -> target -> metric -> position -> the mean at each layer, at the full length.
    first_layer: target -> position -> the first layer with accuracy at or above the threshold.
    reach: target -> for each layer the longest length that reaches the threshold, together with all
        shorter probed lengths; 0 for none.
    """
    curves: dict[str, dict[str, dict[str, dict[str, list[float]]]]] = {}
    for row in rows:  # in the order of layers
        if row["length"] == lengths[-1]:
            by_metric = curves.setdefault(row["control"], {}).setdefault(row["target"], {})
            by_position = by_metric.setdefault(row["metric"], {})
            by_position.setdefault(row["position"], []).append(row["mean"])
    read = {target: by_metric["accuracy"] for target, by_metric in curves["none"].items()}
    grids = by_length(rows, lengths)
    deviations = [row["std"] for row in rows if row["std"] is not None]
    return {
        "lengths": list(lengths),
        "threshold": threshold,
        "chance": {row["target"]: row["chance"] for row in rows if row["length"] == lengths[-1]},
        "curves": curves,
        "first_layer": {
            target: {position: _first(curve, threshold) for position, curve in curves_.items()}
            for target, curves_ in read.items()
        },
        "reach": {
            target: _reach(grids[name], lengths, threshold)
            for target in read
            if (name := f"{target}/none/accuracy") in grids
        },
        "largest_std": max(deviations, default=None),
    }


def _first(curve: Sequence[float], threshold: float) -> int | None:
    return next((layer for layer, value in enumerate(curve) if value >= threshold), None)


def _reach(grid: np.ndarray, lengths: tuple[int, ...], threshold: float) -> list[int]:
    reach = []
    for accuracies in grid:
        below = np.flatnonzero(accuracies < threshold)
        count = int(below[0]) if len(below) else len(lengths)
        reach.append(lengths[count - 1] if count else 0)
    return reach
