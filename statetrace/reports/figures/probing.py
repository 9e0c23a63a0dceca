"""Probe accuracy: by layer with predictions (Figure 3), by length (Figure 10), and its deviation
over training sets (Table 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrace.lenses.result import LensResult
from statetrace.mechanisms.algorithms import algorithm_names
from statetrace.reports.figures.chart import (
    Chart,
    Heat,
    Line,
    Panel,
    grid,
    numbers,
    share_panel,
    target_styles,
)
from statetrace.reports.figures.predicted import predicting, prediction
from statetrace.reports.run_results import RunResults

READ = {"any length": "any", "whole length": "last", "every length": "all"}
METRICS = ("accuracy", "probability")
CONTROL_STYLES = {
    "untrained": ("untrained model", "third", "dash"),
    "shuffled": ("shuffled labels", "fourth", "dot"),
}
"""Control -> label, color, dash; marks tell the targets apart."""
CONTROLS = {"the model": "none", "an untrained model": "untrained", "shuffled labels": "shuffled"}

MOST_TICKS = 12
"""Lengths that fit below a panel on a phone."""


def layer_choices(results: RunResults) -> dict[str, list[str]]:
    positions = set(results.need("probing").columns["position"])
    return {
        "sequences of": [name for name, position in READ.items() if position in positions],
        "measure": list(METRICS),
        "predicted by": ["none", *predicting(results, "probing")],
    }


def probes(
    results: RunResults,
    sequences_of: str = "",
    measure: str = "accuracy",
    predicted_by: str = "none",
) -> Chart:
    """Probe curves over layers, with controls as thin lines and a prediction in pale."""
    result = results.need("probing")
    sequences_of = sequences_of or layer_choices(results)["sequences of"][0]
    rows = _rows(result, READ[sequences_of], measure)
    layers = 1 + max(row["layer"] for row in rows)
    marks: list[Any] = []
    if predicted_by in algorithm_names():
        marks += _prediction(results, predicted_by, layers, sequences_of)
    for target, (colour, mark) in target_styles(row["target"] for row in rows).items():
        mean, std = _series(rows, target, "none")
        y, low, high = numbers(mean), numbers(mean - std), numbers(mean + std)
        marks.append(Line(target, list(range(layers)), y, colour, mark=mark, low=low, high=high))
        for control, (name, hue, dash) in CONTROL_STYLES.items():
            other = numbers(_series(rows, target, control)[0])
            if other:
                x = list(range(len(other)))
                marks.append(Line(f"{target}, {name}", x, other, hue, dash, mark))
    panel = share_panel("layer", measure, marks, whole="x")
    return Chart("probes", f"Probes on sequences of {sequences_of}", (panel,))


def _rows(result: LensResult, position: str, metric: str) -> list[dict[str, Any]]:
    """At the longest length."""
    longest = result.summary["lengths"][-1]
    return result.rows(position=position, metric=metric, length=longest)


def _series(rows: list[dict[str, Any]], target: str, control: str) -> np.ndarray:
    """Mean and deviation by layer, [2, layers]; NaN where there is none."""
    series = [row for row in rows if row["target"] == target and row["control"] == control]
    series.sort(key=lambda row: row["layer"])
    return np.array([[row[key] for row in series] for key in ("mean", "std")], dtype=float)


def _prediction(results: RunResults, algorithm: str, layers: int, sequences_of: str) -> list[Line]:
    signature = prediction(results, algorithm, "probing")
    if signature is None:
        return []
    x = np.linspace(0, layers - 1, signature.rows)
    lines = []
    for target, by_length in signature.probes().items():
        if target == "parity hidden":
            continue
        values = by_length[:, -1] if sequences_of == "whole length" else by_length.mean(1)
        name, y = target.split()[0], numbers(values)
        lines.append(Line(f"{name}, predicted", numbers(x), y, name, mark=None, behind=True))
    return lines


def length_choices(results: RunResults) -> dict[str, list[str]]:
    columns = results.need("probing").columns
    return {
        "probe of": list(dict.fromkeys(columns["target"])),
        "measure": ["probability", "accuracy"],
        "in": [name for name, control in CONTROLS.items() if control in columns["control"]],
    }


def probes_by_length(
    results: RunResults,
    probe_of: str = "state",
    measure: str = "probability",
    in_: str = "the model",
) -> Chart:
    """Layer x length, as in the paper's Figure 10."""
    result = results.need("probing")
    z = result.arrays[f"{probe_of}/{CONTROLS[in_]}/{measure}"]
    x = [int(n) for n in result.arrays["lengths"]]
    heat = Heat(x, list(range(len(z))), grid(z), measure)
    ticks = tuple((n, str(n)) for n in x[:: 1 + len(x) // MOST_TICKS])
    title = f"{probe_of} probe"
    panel = Panel("length", "layer", (heat,), title, down=True, whole="xy", ticks=ticks)
    return Chart("probes-by-length", f"Probes by length: {probe_of} in {in_}", (panel,))


def scatter_table(results: RunResults) -> tuple[list[str], list[list[Any]]]:
    """Table 1: accuracy and its standard deviation over disjoint training sets, by layer."""
    result = results.need("probing")
    position = READ[layer_choices(results)["sequences of"][0]]
    rows = [row for row in _rows(result, position, "accuracy") if row["control"] == "none"]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    spread = any(row["std"] is not None for row in rows)  # a single training set has none
    head = ["layer"]
    for target in targets:
        head += [f"{target}: accuracy", f"{target}: deviation"] if spread else [target]
    table: list[list[Any]] = []
    for layer in sorted({row["layer"] for row in rows}):
        line: list[Any] = [layer]
        for target in targets:
            row = next(r for r in rows if r["layer"] == layer and r["target"] == target)
            line += [row["mean"], row["std"]] if spread else [row["mean"]]
        table.append(line)
    return head, table
