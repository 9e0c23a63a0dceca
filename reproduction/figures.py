"""The page's pictures: results/ drawn with the chart layer that statetrace's reports use.

A picture is a function from the selection to a Chart; PICTURES names them. draw_all writes the PNGs
whose numbers changed, as a fingerprint of the chart shows.

Cost: half a second per changed picture. Caveat: results/ has tables of single models, not full lens
results, so that report figures which need arrays (controls, per-pair values) cannot be used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.lens_model import LensModel
from reproduction.measures import attention, geometry, patching, probing
from reproduction.model_selection import Selection
from reproduction.study_figures import figure_18, figures_7_17
from reproduction.tables import Missing
from statetrace.reports.figures.attention import tree_panel
from statetrace.reports.figures.chart import (
    Bars,
    Chart,
    Cloud,
    Dots,
    Heat,
    Line,
    Panel,
    Path3,
    ReferenceLine,
    numbers,
)  # fmt: skip

FOLDER = "docs/reproduction"
TABLE_2 = {"PAA": (90.1, 86.4, 67.1), "AA": (3.3, 3.0, 2.0)}
Panels = Callable[[LensModel, str], list[Panel]]


def _models(selection: Selection, lens: str, each: int = 1) -> list[tuple[str, LensModel]]:
    """The models of the paper's size trained longest, `each` per mechanism, with a name."""
    found = []
    for mechanism in ("AA", "PAA"):
        models = selection.lens_models({"mechanism": mechanism, "size": "paper"}, lens)
        names = [m.name.replace("-160M", "").replace(", seed ", " #") for m in models[:each]]
        found += [(f"{mechanism}: {name}", m) for name, m in zip(names, models[:each], strict=True)]
    return found


def _per_model(selection: Selection, lens: str, panels: Panels, each: int = 1) -> list[Panel]:
    drawn: list[Panel] = []
    for name, model in _models(selection, lens, each):
        with contextlib.suppress(Missing):
            drawn += panels(model, name)
    if not drawn:
        raise Missing(f"no model of the paper's size has {lens} to draw")
    return drawn


def _heat(cells: np.ndarray, x: str, title: str, label: str = "NLD", high: float = 1.0) -> Panel:
    layers, positions = (list(range(size)) for size in cells.shape)
    heat = Heat(positions, layers, [numbers(row) for row in cells], label, 0.0, high)
    return Panel(x, "layer", (heat,), title, down=True, whole="xy")


def figure_2(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        return [
            _heat(patching.grid(model, "prefix", split)[0], "prefix up to action", title)
            for split, title in (
                ("balanced", name), ("same parity", "same parity"),
                ("opposite parity", "opposite parity"),
            )
        ]  # fmt: skip

    return Chart("figure-2", "Restored prefixes", tuple(_per_model(selection, "patching", panels)))


def figure_8(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        return [
            _heat(np.abs(patching.grid(model, where)[0]), label, f"{name}, {where}")
            for where, label in (("suffix", "suffix from action"), ("window", "action"))
        ]

    return Chart("figure-8", "Deleted suffixes and single actions (|mean NLD|)",
                 tuple(_per_model(selection, "patching", panels)))  # fmt: skip


def figure_9(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        splits = ("all",) if name.startswith("AA") else patching.PARITIES
        return [
            _heat(patching.grid(model, "prefix", split, "std")[0], "prefix up to action",
                  f"{name[:3].rstrip(chr(58))}, {split} pairs", "deviation", 0.5)
            for split in splits
        ]  # fmt: skip

    return Chart("figure-9", "Standard deviation over pairs",
                 tuple(_per_model(selection, "patching", panels)))  # fmt: skip


def figure_3(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        lines = []
        for position, dash in (("last", "solid"), ("any", "dash")):
            for target, mark in (("state", "circle"), ("parity", "square")):
                values, _ = probing.curve(model, target, position)
                label = target if position == "last" else f"{target}, all positions"
                layers = list(range(len(values)))
                lines.append(Line(label, layers, numbers(values), target, dash, mark))
        return [Panel("layer", "probe accuracy", tuple(lines), name, y_range=(0, 1.03), whole="x")]

    return Chart("figure-3", "Probes of state and parity",
                 tuple(_per_model(selection, "probing", panels, each=3)))  # fmt: skip


def figure_10(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        rows = [
            row
            for row in model.table("probing")
            if (row["target"], row["position"], row["metric"]) == ("state", "last", "probability")
        ]
        lengths = sorted({row["length"] for row in rows})
        layers = sorted({row["layer"] for row in rows})
        value = {(row["layer"], row["length"]): row["mean"] for row in rows}
        cells = [[value.get((layer, length)) for length in lengths] for layer in layers]
        heat = Heat(lengths, layers, cells, "probability", 0.0, 1.0)
        return [Panel("length", "layer", (heat,), name, down=True, whole="xy")]

    return Chart("figure-10", "Probability that the state probe gives the truth, by length",
                 tuple(_per_model(selection, "probing", panels)))  # fmt: skip


def figure_4(selection: Selection) -> Chart:
    panels: list[Panel] = []
    for model in selection.lens_models({"mechanism": "PAA", "size": "paper"}, "geometry"):
        means, about = np.array(model.arrays["prism_means"]), geometry.prism(model)
        at = {label: number for number, label in enumerate(geometry.STATES)}
        marks: list[Any] = []
        for name, odd, colour in (("even", False, "state"), ("odd", True, "parity")):
            states = [s for s in geometry.STATES if (s in geometry.ODD) == odd]
            points = [[float(f"{x:.4g}") for x in means[at[s]]] for s in states]
            marks.append(Cloud(name, points, states, colour, size=5, strong=True))
            ends = [(points[i], points[(i + 1) % 3]) for i in range(3)]
            marks.append(Path3(f"{name} face", ends, colour))
        pairs = [(means[at[a]].tolist(), means[at[b]].tolist()) for a, b in about["pairs"]]
        marks.append(Path3("pairs", pairs, "grey", "dash"))
        title = f"{model.name}, layer {about['layer']}"
        panels.append(Panel("parity", "", tuple(marks), title, z="", tall=1.5))
    if not panels:
        raise Missing("no prism to draw")
    return Chart("figure-4", "Means of the six states of PAA models", tuple(panels))


def figures_11_12(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        last = model.arrays.get("last")
        if not last or not name.startswith("AA"):
            raise Missing(f"'{model.folder}' has no points of the last layer")
        marks = []
        for parity, odd, colour in (("even", False, "state"), ("odd", True, "parity")):
            points = [
                [float(f"{x:.3g}") for x in point]
                for point, state in zip(last["points"], last["states"], strict=True)
                if (geometry.STATES[state] in geometry.ODD) == odd
            ]
            marks.append(Cloud(parity, points, [""] * len(points), colour))
        return [Panel("1", "2", tuple(marks), name, z="3", tall=1.5)]

    return Chart("figures-11-12", "Last layer along three principal components",
                 tuple(_per_model(selection, "geometry", panels)))  # fmt: skip


def table_2(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        best = attention.heads(model)[:3]
        x = [1.0, 2.0, 3.0]
        y, low, high = ([head[key] for head in best] for key in ("mean", "low", "high"))
        texts = [f"layer {head['layer']},\nhead {head['head']}" for head in best]
        chance = [model.summary("attention")["top_score_by_chance"]] * 2
        marks = (
            Bars("ours", x, y, low, high, texts, "sixth", 0.6),
            Dots("the paper's", x, TABLE_2[name.split(":")[0]], (), "parity", "diamond", 7),
            Line("best of all heads by chance", (0.5, 3.5), chance, "ink", "dash", mark=None),
        )
        return [Panel("", "score (%)", marks, name, x_range=(0.5, 3.5), y_range=(0, 105),
                      ticks=tuple(zip(x, texts, strict=True)), bare=True)]  # fmt: skip

    return Chart("table-2", "Parity-head scores of the best three heads",
                 tuple(_per_model(selection, "attention", panels, each=3)))  # fmt: skip


def figure_15(selection: Selection) -> Chart:
    models = selection.lens_models({"mechanism": "PAA", "size": "paper"}, "attention")
    model = next((m for m in models if "maps" in m.arrays), None)
    if model is None:
        raise Missing("no attention maps to draw")
    arrays = model.arrays
    odd = [i for i, is_odd in enumerate(arrays["odd"]) if is_odd]
    panels = []
    for weights, (layer, head) in zip(arrays["maps"], arrays["heads"], strict=True):
        steps = list(range(len(weights)))
        cells = [[float(f"{w:.3g}") if j <= i else None for j, w in enumerate(row)]
                 for i, row in enumerate(weights)]  # fmt: skip
        heat = Heat(steps, steps, cells, "weight", 0.0, float(f"{np.max(weights):.2g}"))
        dots = Dots("odd actions", odd, [-1.2] * len(odd), (), "parity", "triangle-down", 5)
        panels.append(
            Panel("attended action", "action", (heat, dots), f"layer {layer}, head {head}",
                  y_range=(-2.0, len(steps) - 0.5), down=True, whole="xy")
        )  # fmt: skip
    return Chart("figure-15", f"Best parity heads, PAA: {model.name}", tuple(panels))


def figure_16(selection: Selection) -> Chart:
    for name, model in _models(selection, "attention"):
        tree = model.arrays.get("tree")
        if name.startswith("AA") and tree:
            edges = np.array(tree["edges"], dtype=int).reshape(-1, 3)
            names = [geometry.STATES[action] for action in tree["actions"]]
            panel = tree_panel(edges, tree["weights"], names, tree["layers"], tree["above"])
            return Chart("figure-16", f"Attention tree of one sequence, {name}", (panel,))
    raise Missing("no attention tree to draw")


def figure_5(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        table, about = model.table("generalization"), model.summary("generalization")
        marks: list[Any] = []
        for what in ("state", "parity"):
            rows = [row for row in table if row["what"] == what]
            x, y, low, high = ([r[k] for r in rows] for k in ("length", "accuracy", "low", "high"))
            marks.append(Line(what, x, y, what, mark=None, low=low, high=high))
            end = about["cutoff"][what]["first_below"]
            if end is not None:
                side = ("left", 0.04) if what == "state" else ("right", 0.88)
                marks.append(ReferenceLine("x", end, str(end), what, beside=side))
        return [Panel("length", "accuracy", tuple(marks), name, y_range=(0, 1.03), whole="x")]

    return Chart("figure-5", "Accuracy by length, with cutoffs at 98%",
                 tuple(_per_model(selection, "generalization", panels, each=3)))  # fmt: skip


def figure_6(selection: Selection) -> Chart:
    def panels(model: LensModel, name: str) -> list[Panel]:
        marks = []
        for what, mark in (("state", "circle"), ("parity", "square")):
            rows = [
                row
                for row in model.table("dynamics")
                if (row["measure"], row["what"], row["threshold"]) == ("reached", what, 0.9)
                and row["step"] is not None
            ]
            x, y = ([row[key] for row in rows] for key in ("length", "step"))
            marks.append(Line(what, x, y, what, mark=mark))
        return [Panel("length", "training step", tuple(marks), name, whole="xy")]

    return Chart("figure-6", "Training steps until 90% are correct, by length",
                 tuple(_per_model(selection, "dynamics", panels, each=3)))  # fmt: skip


PICTURES: dict[str, Callable[[Selection], Chart]] = {
    "figure-2": figure_2, "figure-3": figure_3, "figure-4": figure_4, "figure-5": figure_5,
    "figure-6": figure_6, "figures-7-17": figures_7_17, "figure-8": figure_8, "figure-9": figure_9,
    "figure-10": figure_10, "figures-11-12": figures_11_12, "figure-15": figure_15,
    "figure-16": figure_16, "figure-18": figure_18, "table-2": table_2,
}  # fmt: skip


def charts(selection: Selection) -> dict[str, Chart]:
    """All pictures whose numbers are in results/."""
    drawn = {}
    for name, draw in PICTURES.items():
        with contextlib.suppress(Missing):
            drawn[name] = draw(selection)
    return drawn


def fingerprint(chart: Chart) -> str:
    panels = [(panel.title, panel.x, panel.y, panel.ticks) for panel in chart.panels]
    content = json.dumps([chart.title, panels, chart.rows()], default=float)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def drawn_last(root: Path) -> dict[str, str]:
    """Fingerprints of the pictures that exist."""
    file = root / FOLDER / "pictures.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    return {name: mark for name, mark in known.items() if (file.parent / f"{name}.png").is_file()}


def draw_all(root: Path, selection: Selection) -> None:
    """Write every picture whose numbers changed, and remove those without numbers."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    before, drawn = drawn_last(root), charts(selection)
    marks = {name: fingerprint(chart) for name, chart in drawn.items()}
    for name, chart in drawn.items():
        if before.get(name) != marks[name]:
            chart.save(folder / f"{name}.png")
    for file in folder.glob("*.png"):
        if file.stem not in drawn:
            file.unlink()
    (folder / "pictures.json").write_text(json.dumps(marks, indent=2) + "\n")
