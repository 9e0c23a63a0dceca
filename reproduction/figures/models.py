"""Pictures of the best model of either mechanism (Figures 2 to 6, 8 and 15)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from reproduction.measures.patching import grid, pairs_of
from reproduction.measures.probing import curve
from reproduction.model_selection import S5_A, S5_P, TEXT, A, P, first, short
from reproduction.results import Missing, Results, lens_file
from statetrace.groups import group
from statetrace.reports.figures.chart import (
    Chart,
    Cloud,
    Dots,
    Heat,
    Line,
    Panel,
    Path3,
    ReferenceLine,
    numbers,
)

NAMES = {A: "AA", P: "PAA"}
OF_S5 = {S5_A: "AA", S5_P: "PAA"}
Panels = Callable[[Results, str, str], list[Panel]]
"""What is drawn of one model: from what it is called and its folder."""
KNOWN = 0.98
SPLITS = ("all", "same parity", "opposite parity")


def titled(title: str, found: Results, named: dict[str, str]) -> str:
    """A title that also says which models, unless they are the zoo's."""
    said = {called: short(found, folder) for folder, called in named.items()}
    about = "; ".join(f"{called}: {about}" for called, about in said.items() if about)
    return f"{title}\n{about}" if about else title


def of_both(
    found: Results, name: str, title: str, make: Panels, names: dict[str, str] = NAMES
) -> Chart:
    """Panels of the best model of either mechanism, or of the one that there is."""
    named, panels = {}, []
    for mechanism, called in names.items():
        with contextlib.suppress(Missing):
            folder, made = first(found, mechanism, partial(make, found, called))
            named[folder] = called
            panels += made
    if not panels:
        raise Missing(f"no model has what the picture '{name}' shows")
    return Chart(name, titled(title, found, named), tuple(panels))


def patching(found: Results) -> Chart:
    """Figures 2, 8A and 8B: the two models, all pairs and by parity."""
    title = "Prefixes restored (Figures 2 and 8), without pairs that a model answers alike"
    return of_both(found, "patching", title, maps)


def patching_s5(found: Results) -> Chart:
    """Figure 2's models of S5."""
    return of_both(found, "patching-s5", "S5, prefixes restored (Figure 2)", maps, OF_S5)


def maps(found: Results, called: str, model: str) -> list[Panel]:
    return [
        layers_by_position(*counted(found, model, "prefix", split), "prefix up to action",
                           f"{called}, {split}")
        for split in SPLITS
    ]  # fmt: skip


def counted(
    found: Results, model: str, where: str, split: str = "all", column: str = "mean"
) -> tuple[np.ndarray, str]:
    """A patching map, and over how many pairs it is: "196 of 200 pairs"."""
    cells, n = grid(found, model, where, split, column)
    return cells, f"{n} {pairs_of(found, model, split)}"


def layers_by_position(
    cells: np.ndarray, pairs: str, label: str, title: str, of: str = "NLD", most: float = 1.0
) -> Panel:
    """A map [layers, positions] over so many pairs."""
    layers, positions = (list(range(size)) for size in cells.shape)
    heat = Heat(positions, layers, [numbers(row) for row in cells], of, 0.0, most)
    return Panel(label, "layer", (heat,), f"{title} ({pairs})", down=True, whole="xy")


def probes(found: Results) -> Chart:
    """Figure 3: what a line reads from the last token, and from any, by layer."""
    return of_both(
        found,
        "probes",
        "Probes (Figure 3): at the last token of the longest, and at any action",
        _probes,
    )


def probes_s5(found: Results) -> Chart:
    """Figure 3's models of S5."""
    return of_both(
        found,
        "probes-s5",
        "S5, probes (Figure 3): at the last token of the longest, and at any action",
        _probes,
        OF_S5,
    )


def text(found: Results) -> Chart:
    """Figure 14: models from scratch that read sentences, by probes, by patching, and how far they
    are right."""
    panels: list[Panel] = []
    for number, model in enumerate(found.folders(TEXT), start=1):
        of = f"{number}: {short(found, model)}"
        panels += [*_probes(found, of, model), *maps(found, str(number), model)[:1]]
        panels += by_length(found, f"{number}: cutoffs at 98%", model)
    if not panels:
        raise Missing("no model that reads sentences was looked at")
    return Chart("text", "Told in words, from scratch (Figure 14)", tuple(panels))


def _probes(found: Results, called: str, model: str) -> list[Panel]:
    lines: list[Any] = []
    for target in ("state", "parity"):
        values, _ = curve(found, model, target)
        layers = list(range(len(values)))
        mark = "circle" if target == "state" else "square"
        lines.append(Line(target, layers, numbers(values), target, mark=mark))
    with contextlib.suppress(Missing):
        values, _ = curve(found, model, "state", "any")
        lines.append(Line("state, at any action", layers, numbers(values), "third", "dash"))
    return [Panel("layer", "probe accuracy", tuple(lines), called, y_range=(0, 1.03), whole="x")]


def prism(found: Results) -> Chart:
    """Figure 4: means of the six states where the prism is clearest."""
    model, (layer, panel) = first(found, P, lambda model: _prism(found, model))
    title = f"States of the PAA model, layer {layer} (Figure 4)"
    return Chart("prism", titled(title, found, {model: "PAA"}), (panel,))


def _prism(found: Results, model: str) -> tuple[int, Panel]:
    drawn = found.json(lens_file(model, "drawn", "json"))
    about = found.json(lens_file(model, "geometry", "json"))["summary"].get("prism")
    if about is None or "prism_means" not in drawn:
        raise Missing(f"'{model}' has no prism to draw")
    means = np.array(drawn["prism_means"])  # [6, 3]
    states = group("S3")
    at = {label: number for number, label in enumerate(states.labels)}
    assert states.parity is not None
    odd = np.array(states.parity) > 0
    marks: list[Any] = []
    for name, chosen, colour in (("even", ~odd, "state"), ("odd", odd, "parity")):
        here = np.flatnonzero(chosen)
        texts = [states.labels[i] for i in here]
        points = [[float(f"{x:.4g}") for x in means[i]] for i in here]
        marks.append(Cloud(name, points, texts, colour, size=5, strong=True))
        ends = [(points[i], points[(i + 1) % 3]) for i in range(3)]
        marks.append(Path3(f"{name} face", ends, colour))
    pairs = [(means[at[a]].tolist(), means[at[b]].tolist()) for a, b in about["pairs"]]
    marks.append(Path3("pairs", pairs, "grey", "dash"))
    return about["layer"], Panel("parity", "complement", tuple(marks), z="complement", tall=1.6)


def parity_heads(found: Results) -> Chart:
    """Figure 15: the maps of the heads with the best scores, for one sequence."""
    model, panels = first(found, P, lambda model: _heads(found, model))
    title = "The PAA model's best parity heads (Figure 15)"
    return Chart("parity-heads", titled(title, found, {model: "PAA"}), tuple(panels))


def _heads(found: Results, model: str) -> list[Panel]:
    drawn = found.json(lens_file(model, "drawn", "json"))
    if "maps" not in drawn:
        raise Missing(f"'{model}' has no parity heads to draw")
    odd = [i for i, is_odd in enumerate(drawn["odd"]) if is_odd]
    panels = []
    for weights, (layer, head) in zip(drawn["maps"], drawn["heads"], strict=True):
        rows = np.array(weights)
        steps = list(range(len(rows)))
        cells = [[float(f"{w:.3g}") if j <= i else None for j, w in enumerate(row)]
                 for i, row in enumerate(rows.tolist())]  # fmt: skip
        heat = Heat(steps, steps, cells, "weight", 0.0, float(f"{rows.max():.2g}"))
        dots = Dots("odd actions", odd, [-1.2] * len(odd), colour="parity", mark="triangle-down",
                    size=5)  # fmt: skip
        panels.append(
            Panel("attended action", "action", (heat, dots), f"layer {layer}, head {head}",
                  y_range=(-2.0, len(rows) - 0.5), down=True, whole="xy")
        )  # fmt: skip
    return panels


def generalization(found: Results) -> Chart:
    """Figure 5: accuracy by length, with cutoffs."""
    title = "Accuracy by length, cutoffs at 98% (Figure 5)"
    return of_both(found, "generalization", title, by_length)


def by_length(found: Results, called: str, model: str, ends: bool = True) -> list[Panel]:
    """With the cutoffs, or without."""
    table = found.table(lens_file(model, "generalization"))
    about = found.json(lens_file(model, "generalization", "json"))["summary"]
    marks: list[Any] = []
    for what in ("state", "parity"):
        rows = [row for row in table if row["what"] == what]
        x, y, low, high = ([row[k] for row in rows] for k in ("length", "accuracy", "low", "high"))
        marks.append(Line(what, x, y, what, mark=None, low=low, high=high))
        end = about["cutoff"][what]["first_below"]
        if ends and end is not None:
            side = ("left", 0.04) if what == "state" else ("right", 0.88)
            marks.append(ReferenceLine("x", end, str(end), what, beside=side))
    return [Panel("length", "accuracy", tuple(marks), called, y_range=(0, 1.03), whole="x")]


def training(found: Results) -> Chart:
    """Figure 6: when each length was first known."""
    title = "Training steps until 98% are right, by length (Figure 6)"
    return of_both(found, "training", title, _reached)


def _reached(found: Results, called: str, model: str) -> list[Panel]:
    table = found.table(lens_file(model, "dynamics"))
    rows = [r for r in table if (r["measure"], r["threshold"]) == ("reached", KNOWN)]
    marks: list[Any] = []
    for what in ("state", "parity"):
        mine = [row for row in rows if row["what"] == what and row["step"] is not None]
        if not mine:
            raise Missing(f"'{model}' never knew the {what}")
        x, y = ([row[key] for row in mine] for key in ("length", "step"))
        mark = "circle" if what == "state" else "square"
        marks.append(Line(what, x, y, what, mark=mark))
    return [Panel("length", "training step", tuple(marks), called, whole="xy")]
