"""The page's pictures: panels of the report's own figures, drawn from the lens results in results/.

A picture is a function from the selection to a Chart; PICTURES names them. draw_all writes the PNGs
whose numbers changed, as a fingerprint of the chart shows. Tables 1 and 2 of the paper, which have
no figure in a report, are drawn here, beside the paper's numbers.

Cost: half a second per changed picture.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import statetrace as st
from reproduction.lens_model import LensModel
from reproduction.measures import attention, geometry, probing
from reproduction.model_selection import Selection
from reproduction.study_figures import appendix_h, figure_18, figures_7_17
from reproduction.tables import Missing
from statetrace.errors import StatetraceError
from statetrace.reports.figures import attention as attention_figures
from statetrace.reports.figures import geometry as geometry_figures
from statetrace.reports.figures import patching as patching_figures
from statetrace.reports.figures import probing as probing_figures
from statetrace.reports.figures.chart import (
    Bars,
    Chart,
    Cloud,
    Dots,
    Line,
    Panel,
    Path3,
    Plane,
)
from statetrace.reports.figures.dynamics import learned_by_length
from statetrace.reports.figures.generalization import generalization

FOLDER = "docs/reproduction"
TABLE_1 = {
    "PAA": ((4.16e-6, 3.36e-6, 4.52e-6, 4.31e-5, 1.58e-5, 1.70e-5, 1.87e-5, 1.29e-5, 3.18e-5,
             2.96e-4, 3.10e-4, 1.86e-4, 7.05e-5),
            (3.03e-6, 3.31e-6, 5.45e-6, 5.59e-4, 3.72e-5, 5.38e-6, 7.02e-6, 1.34e-5, 3.08e-5,
             6.85e-5, 7.98e-5, 8.22e-5, 4.01e-5)),
    "AA": ((6.33e-6, 2.62e-6, 1.46e-6, 5.00e-6, 4.16e-6, 1.97e-6, 4.73e-6, 7.79e-6, 1.18e-5,
            2.36e-5, 2.60e-5, 8.83e-6, 1.20e-6),
           (2.71e-6, 2.82e-6, 8.97e-7, 1.38e-6, 1.11e-6, 1.11e-6, 1.59e-6, 3.05e-6, 2.64e-6,
            3.53e-6, 2.96e-6, 2.77e-6, 2.75e-6)),
}  # fmt: skip
"""The paper's state and parity columns, layers 0 to 12."""
TABLE_2 = {"PAA": (90.1, 86.4, 67.1), "AA": (3.3, 3.0, 2.0)}
Draw = Callable[[LensModel], Chart]


def _models(selection: Selection, lens: str, each: int = 1) -> list[tuple[str, LensModel]]:
    """The models of the paper's size trained longest, `each` per mechanism, with a name."""
    named = []
    for mechanism in ("AA", "PAA"):
        models = selection.lens_models({"mechanism": mechanism, "size": "paper"}, lens)
        names = [m.name.replace("-160M", "").replace(", seed ", " #") for m in models[:each]]
        named += [(f"{mechanism}: {name}", m) for name, m in zip(names, models[:each], strict=True)]
    return named


def _panels(model: LensModel, draw: Draw, title: str) -> list[Panel]:
    """The first panel of a report's figure under another title; none where it cannot be drawn."""
    with contextlib.suppress(StatetraceError):
        return [replace(draw(model).panels[0], title=title)]
    return []


def _chart(name: str, title: str, panels: list[Panel], columns: int = 0) -> Chart:
    if not panels:
        raise Missing(f"no model of results/ has '{name}' to draw")
    return Chart(name, title, tuple(panels), columns=columns)


def figure_1(selection: Selection) -> Chart:
    chart = st.signatures("S3", 32, pairs=100).plot("all")
    return replace(chart, name="figure-1", title="Predicted prefix patching: action 1 restored")


def _patched(model: LensModel, title: str, split: str = "all", **view: str) -> list[Panel]:
    return _panels(
        model, lambda m: patching_figures.patching(m.results, pairs=split, **view), title
    )


def figure_2(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "patching"):
        panels += _patched(model, name)
        for split in ("same parity", "opposite parity"):
            panels += _patched(model, split, split)
    return _chart("figure-2", "Restored prefixes (mean NLD; left: all pairs, as drawn)", panels, 3)


def figure_8(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "patching"):
        for grid in ("suffix deletion", "window deletion"):
            panels += _patched(model, f"{name}, {grid}", map=grid)
    return _chart("figure-8", "Deleted suffixes and single actions (mean NLD)", panels, 2)


def figure_9(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "patching"):
        splits = ("all",) if name.startswith("AA") else ("same parity", "opposite parity")
        for split in splits:
            title = f"{name.split(':')[0]}, {split} pairs"
            panels += _patched(model, title, split, show="deviation")
    return _chart("figure-9", "Standard deviation over pairs", panels, 3)


def _probed(model: LensModel, title: str, sequences_of: str) -> list[Panel]:
    return _panels(model, lambda m: probing_figures.probes(m.results, sequences_of), title)


def figure_3(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "probing", each=2):
        panels += _probed(model, f"{name}, last", "whole length")
        panels += _probed(model, f"{name}, any", "any length")
    title = "Probes of state and parity at the last position, and at any position"
    return _chart("figure-3", title, panels, 4)


def figure_10(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "probing"):
        panels += _panels(model, lambda m: probing_figures.probes_by_length(m.results), name)
    title = "Probability that the state probe gives the truth, by length"
    return _chart("figure-10", title, panels, 2)


def table_1(selection: Selection) -> Chart:
    """Ours with the released protocol, on bundled models, against the depth of the model."""
    panels = []
    for mechanism, folder in (("PAA", "s3-rotary"), ("AA", "s3-associative")):
        model = selection.all_models.get(f"zoo/{folder}-released")
        if model is None:
            continue
        lines = []
        for number, target in enumerate(("state", "parity")):
            deviations, _ = probing.curve(model, target, "all", "std")
            depth = [layer / (len(deviations) - 1) for layer in range(len(deviations))]
            y = [2 * math.log10(max(float(d), 1e-5)) for d in deviations]
            lines.append(Line(f"{target}, ours", depth, y, target, mark="circle"))
            x = [layer / 12 for layer in range(13)]
            y = [math.log10(value) for value in TABLE_1[mechanism][number]]
            lines.append(Line(f"{target}, Table 1", x, y, target, "dot", mark="square"))
        panels.append(
            Panel("depth", "log10 of the variance", tuple(lines), f"{mechanism}: zoo:{folder}",
                  y_range=(-8.6, -2))
        )  # fmt: skip
    return _chart("table-1", "Variance of probes over ten training subsets", panels, 2)


def figure_4(selection: Selection) -> Chart:
    panels = []
    for model in selection.lens_models({"mechanism": "PAA", "size": "paper"}, "geometry"):
        layer = geometry.prism(model)["layer"]

        def draw(model: LensModel, layer: int = layer) -> Chart:
            return geometry_figures.geometry(
                model.results, "parity and clusters", str(layer), "oblique"
            )

        panels += _panels(model, draw, f"{model.name}, layer {layer}")
    for number, panel in enumerate(panels):  # only some models have activations of single sequences
        marks = tuple(
            mark
            for mark in panel.marks
            if isinstance(mark, Cloud | Path3 | Plane) and "activations" not in mark.name
        )
        corners = np.array([m.corners for m in marks if isinstance(m, Plane)], dtype=float)
        edge = 1.1 * float(np.abs(corners).max())
        box = ((-edge, edge),) * 3
        panels[number] = replace(panel, marks=marks, box=box, z="")  # z would be cut off
    return _chart("figure-4", "Means of the six states of PAA models, parity upwards", panels, 2)


def figures_11_12(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "geometry", each=2):
        if name.startswith("AA"):
            panels += _panels(
                model, lambda m: geometry_figures.geometry(m.results, "principal components"), name
            )
    return _chart("figures-11-12", "Last layer along three principal components", panels, 2)


def table_2(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "attention", each=3):
        with contextlib.suppress(Missing):
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
            panels.append(
                Panel("", "score (%)", marks, name, x_range=(0.5, 3.5), y_range=(0, 105),
                      ticks=tuple(zip(x, texts, strict=True)), bare=True)
            )  # fmt: skip
    return _chart("table-2", "Parity-head scores of the best three heads", panels, 3)


def figure_15(selection: Selection) -> Chart:
    for name, model in _models(selection, "attention", each=9):
        if name.startswith("PAA") and "top_maps" in model.lens("attention").arrays:
            panels = attention_figures.attention_maps(model.results).panels[:-1]
            return _chart("figure-15", f"Best parity heads, {name}", list(panels), 3)
    raise Missing("no attention maps to draw")


def figure_16(selection: Selection) -> Chart:
    for name, model in _models(selection, "attention"):
        if name.startswith("AA"):
            panels = _panels(model, lambda m: attention_figures.attention_tree(m.results), "")
            return _chart("figure-16", f"Attention tree of one sequence, {name}", panels)
    raise Missing("no attention tree to draw")


def figure_5(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "generalization", each=3):
        panels += _panels(model, lambda m: generalization(m.results), name)
    return _chart("figure-5", "Accuracy by length, with cutoffs at 98%", panels, 2)


def figure_6(selection: Selection) -> Chart:
    panels = []
    for name, model in _models(selection, "dynamics", each=3):
        panels += _panels(model, lambda m: learned_by_length(m.results), name)
    return _chart("figure-6", "Training steps until 90% are correct, by length", panels, 2)


def figures_13_14(selection: Selection) -> Chart:
    panels = []
    for folder, name in (("s5-associative", "S5, AA"), ("s5-four-parity-associative",
                         "S5, taught parity")):  # fmt: skip
        model = selection.all_models.get(folder)
        for split in ("same parity", "opposite parity"):
            panels += _patched(model, f"{name}: {split}", split) if model else []
    for number in (0, 1):
        model = selection.all_models.get(f"tiny-text/cells/scratch_seed-{number}")
        panels += _probed(model, f"sentences, seed {number}", "whole length") if model else []
    return _chart("figures-13-14", "S5: restored prefixes; sentences: probes", panels, 2)


PICTURES: dict[str, Callable[[Selection], Chart]] = {
    "figure-1": figure_1, "figure-2": figure_2, "figure-3": figure_3, "figure-4": figure_4,
    "figure-5": figure_5, "figure-6": figure_6, "figures-7-17": figures_7_17, "figure-8": figure_8,
    "figure-9": figure_9, "figure-10": figure_10, "figures-11-12": figures_11_12,
    "figures-13-14": figures_13_14, "figure-15": figure_15, "figure-16": figure_16,
    "figure-18": figure_18, "appendix-h": appendix_h, "table-1": table_1, "table-2": table_2,
}  # fmt: skip


def charts(selection: Selection) -> dict[str, Chart]:
    """All pictures whose numbers are in results/."""
    drawn = {}
    for name, draw in PICTURES.items():
        with contextlib.suppress(Missing):
            drawn[name] = draw(selection)
    return drawn


def fingerprint(chart: Chart) -> str:
    panels = [(p.title, p.x, p.y, p.z, p.ticks, p.x_range, p.y_range, p.box) for p in chart.panels]
    content = json.dumps([chart.title, panels, chart.columns, chart.rows()], default=float)
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
