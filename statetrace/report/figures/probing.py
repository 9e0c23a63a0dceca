"""What probes read: by layer with what was predicted (Figure 3), by length (Figure 10), and how
much the numbers scatter (Table 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from statetrace.report.figures.chart import TURNS, Chart, Heat, Line, Panel, grid, numbers
from statetrace.report.figures.predicted import ALGORITHMS, Predicted
from statetrace.report.run_results import RunResults

READ = {"any length": "any", "whole length": "last"}
METRICS = {"accuracy": "accuracy", "probability": "probability"}
MARKS = {"state": "circle", "parity": "square"}
CONTROLS = {"the model": "none", "an untrained model": "untrained", "shuffled labels": "shuffled"}

LAYERS = "probes"
LAYERS_TITLE = "What probes read, layer by layer"
LAYERS_ABOUT = (
    "Linear probes of the state and of its parity at the token that ends a sequence, tried on "
    "sequences they were not fitted on; error bands are one deviation over disjoint training sets. "
    "Wide pale curves are what the chosen algorithm predicts, stretched to this model's number of "
    "layers. Parity that is read before the state is what tells parity-associative models."
)
LENGTHS = "probes-by-length"
LENGTHS_TITLE = "What probes read, by length"
LENGTHS_ABOUT = (
    "A probe for each layer and length. Where states of twice the length become readable with "
    "every layer, the model composes associatively; a band at one third (in S3) is parity known "
    "and the rest not."
)


def layer_choices(look: RunResults) -> dict[str, list[str]]:
    look.need("probing")
    return {
        "sequences of": list(READ),
        "measure": list(METRICS),
        "predicted by": ["none", *Predicted.of(look, "probing").names()],
    }


def probes(
    look: RunResults,
    sequences_of: str = "any length",
    measure: str = "accuracy",
    predicted_by: str = "none",
) -> Chart:
    """Probe curves over layers, controls as thin lines, a prediction behind."""
    result = look.need("probing")
    rows = [
        row
        for row in result.rows()
        if row["position"] == READ[sequences_of]
        and row["metric"] == METRICS[measure]
        and row["length"] == result.summary["lengths"][-1]
    ]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    layers = 1 + max(row["layer"] for row in rows)
    marks: list[Any] = []
    if predicted_by in ALGORITHMS:
        marks += _behind(look, predicted_by, layers, sequences_of)
    spare = iter(TURNS * 9)
    for target in targets:
        colour = target if target in MARKS else next(spare)
        mine = _series(rows, target, "none")
        marks.append(
            Line(
                target,
                list(range(layers)),
                numbers(mine["mean"]),
                colour,
                mark=MARKS.get(target, "diamond"),
                low=numbers(mine["mean"] - mine["std"]),
                high=numbers(mine["mean"] + mine["std"]),
            )
        )
        for control, dash in (("untrained", "dash"), ("shuffled", "dot")):
            other = _series(rows, target, control)
            if len(other["mean"]):
                name = f"{target}, {control}"
                x = list(range(len(other["mean"])))
                marks.append(Line(name, x, numbers(other["mean"]), "grey", dash, mark=None))
    top = Panel("layer", measure, tuple(marks), y_range=(0, 1.04), whole="x")
    return Chart(LAYERS, f"Probes at sequences of {sequences_of}", (top,), LAYERS_ABOUT)


def _series(rows: list[dict[str, Any]], target: str, control: str) -> dict[str, np.ndarray]:
    here = sorted(
        (row for row in rows if row["target"] == target and row["control"] == control),
        key=lambda row: row["layer"],
    )
    return {
        key: np.array([np.nan if row[key] is None else row[key] for row in here])
        for key in ("mean", "std")
    }


def _behind(look: RunResults, algorithm: str, layers: int, sequences_of: str) -> list[Line]:
    found = Predicted.of(look, "probing").signature(algorithm)
    if isinstance(found, str):
        return []
    x = np.linspace(0, layers - 1, found.rows)
    drawn = []
    for target, grid_ in found.probes().items():
        if target == "parity hidden":
            continue
        values = grid_.mean(1) if sequences_of == "any length" else grid_[:, -1]
        name = target.split()[0]
        drawn.append(
            Line(f"{name}, predicted", numbers(x), numbers(values), name, mark=None, behind=True)
        )
    return drawn


def length_choices(look: RunResults) -> dict[str, list[str]]:
    result = look.need("probing")
    made = {row["control"] for row in result.rows()}
    return {
        "probe of": list(dict.fromkeys(row["target"] for row in result.rows())),
        "measure": ["probability", "accuracy"],
        "in": [name for name, control in CONTROLS.items() if control in made],
    }


def probes_by_length(
    look: RunResults, probe_of: str = "state", measure: str = "probability", in_: str = "the model"
) -> Chart:
    """Layer x length, as in the paper's Figure 10."""
    result = look.need("probing")
    z = result.arrays[f"{probe_of}/{CONTROLS[in_]}/{METRICS[measure]}"]
    x = [int(n) for n in result.arrays["lengths"]]
    heat = Heat(x, list(range(len(z))), grid(z), measure)
    panel = Panel("length", "layer", (heat,), title=f"{probe_of} probe", down=True, whole="xy")
    return Chart(LENGTHS, f"Probes by length: {probe_of} in {in_}", (panel,), LENGTHS_ABOUT)


def scatter_table(look: RunResults) -> tuple[list[str], list[list[Any]]]:
    """Table 1: the deviation of accuracy at each layer over disjoint training sets."""
    result = look.need("probing")
    rows = [
        row
        for row in result.rows()
        if (row["position"], row["control"], row["metric"]) == ("any", "none", "accuracy")
    ]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    spread = any(row["std"] is not None for row in rows)  # one training set has none
    head = ["layer"]
    for target in targets:
        head += [f"{target}: accuracy", f"{target}: deviation"] if spread else [target]
    table: list[list[Any]] = []
    for layer in sorted({row["layer"] for row in rows}):
        line: list[Any] = [layer]
        for target in targets:
            found = [row for row in rows if row["layer"] == layer and row["target"] == target]
            line += [found[0]["mean"], found[0]["std"]] if spread else [found[0]["mean"]]
        table.append(line)
    return head, table
