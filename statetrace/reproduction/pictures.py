"""The page's pictures, drawn from results/ by the report's own renderer.

Cost: half a second each. What is drawn is a `Chart`, plain numbers; fingerprints of these are kept
in docs/reproduction/pictures.json, so that a test can tell whether a picture is older than its
numbers without comparing pixels.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.groups import group
from statetrace.report.figures.chart import (
    Bars,
    Chart,
    Cloud,
    Dots,
    Heat,
    Line,
    Panel,
    Path3,
    Rule,
    numbers,
)
from statetrace.report.figures.study_shares import order, style
from statetrace.reproduction.claims.names import BOTH, SCRATCH
from statetrace.reproduction.kept import A, P, first, short
from statetrace.reproduction.of_patching import grid
from statetrace.reproduction.of_probing import curve
from statetrace.reproduction.of_studies import judged
from statetrace.reproduction.results import Missing, Results, Row, lens_file
from statetrace.studies.proportions import proportions

FOLDER = Path("docs/reproduction")
NAMES = {A: "AA", P: "PAA"}
Panels = Callable[[Results, str, str], list[Panel]]
"""What is drawn of one model: from what it is called and its folder."""
SPLITS = ("all", "same parity", "opposite parity")


def titled(title: str, found: Results, named: dict[str, str]) -> str:
    """A title that also says which models, unless they are the zoo's."""
    said = {called: short(found, folder) for folder, called in named.items()}
    about = "; ".join(f"{called}: {about}" for called, about in said.items() if about)
    return f"{title}\n{about}" if about else title


def of_both(found: Results, name: str, title: str, make: Panels) -> Chart:
    """Panels of the best model of either mechanism."""
    named, panels = {}, []
    for mechanism, called in NAMES.items():
        folder, made = first(found, mechanism, partial(make, found, called))
        named[folder] = called
        panels += made
    return Chart(name, titled(title, found, named), tuple(panels))


def patching(found: Results) -> Chart:
    """Figures 2, 8A and 8B: the two models, all pairs and by parity."""
    return of_both(found, "patching", "Prefixes restored (Figures 2 and 8)", _maps)


def _maps(found: Results, called: str, model: str) -> list[Panel]:
    panels = []
    for split in SPLITS:
        cells, n = grid(found, model, "prefix", split)
        layers, positions = (list(range(size)) for size in cells.shape)
        heat = Heat(positions, layers, [numbers(row) for row in cells], "NLD")
        panels.append(
            Panel("prefix up to action", "layer", (heat,), f"{called}, {split} ({n} pairs)",
                  down=True, whole="xy")
        )  # fmt: skip
    return panels


def probes(found: Results) -> Chart:
    """Figure 3: what a line reads from the last token, by layer."""
    return of_both(found, "probes", "Probes at the last token (Figure 3)", _probes)


def _probes(found: Results, called: str, model: str) -> list[Panel]:
    lines: list[Any] = []
    for target in ("state", "parity"):
        values, _ = curve(found, model, target)
        layers = list(range(len(values)))
        mark = "circle" if target == "state" else "square"
        lines.append(Line(target, layers, numbers(values), target, mark=mark))
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
    return of_both(found, "generalization", title, _by_length)


def _by_length(found: Results, called: str, model: str) -> list[Panel]:
    table = found.table(lens_file(model, "generalization"))
    about = found.json(lens_file(model, "generalization", "json"))["summary"]
    marks: list[Any] = []
    for what in ("state", "parity"):
        rows = [row for row in table if row["what"] == what]
        x, y, low, high = ([row[k] for row in rows] for k in ("length", "accuracy", "low", "high"))
        marks.append(Line(what, x, y, what, mark=None, low=low, high=high))
        end = about["cutoff"][what]["first_below"]
        if end is not None:
            side = ("left", 0.3) if what == "state" else ("right", 0.88)
            marks.append(Rule("x", end, str(end), what, beside=side))
    return [Panel("length", "accuracy", tuple(marks), called, y_range=(0, 1.03), whole="x")]


def _studied(found: Results) -> list[tuple[str, list[Row]]]:
    """Judged models of the studies, the small ones and those of the paper's size apart: what a
    panel is called, and its rows."""
    every = (
        ("small models", judged(found, BOTH, "verdict")),
        ("the paper's size", judged(found, (SCRATCH,), "verdict")),
    )
    return [(called, rows) for called, rows in every if rows]


def shares(found: Results) -> Chart:
    """Figures 7 and 18: which mechanism models learned."""
    studied = _studied(found)
    if not studied:
        raise Missing("no model of the studies has a verdict")
    panels = tuple(_bars(rows, called if len(studied) > 1 else "") for called, rows in studied)
    whose = "the small models" if len(studied) == 1 else "models"
    return Chart("proportions", f"Mechanisms of {whose} (Figures 7 and 18)", panels)


def _bars(rows: list[Row], title: str) -> Panel:
    """A group of bars for each family and what it was taught before."""
    rows = [row | {"what": f"{row['model']} {row.get('regime') or 'scratch'}"} for row in rows]
    table = proportions(rows, ["what"])
    names = list(dict.fromkeys(row["what"] for row in table))
    counts = {row["what"]: row["cells"] for row in table}
    mechanisms = sorted({row["mechanism"] for row in table}, key=order)
    wide = 0.8 / len(mechanisms)
    bars: list[Any] = []
    for number, mechanism in enumerate(mechanisms):
        mine = {row["what"]: row for row in table if row["mechanism"] == mechanism}
        x = [i + wide * (number - (len(mechanisms) - 1) / 2) for i in range(len(names))]
        y, low, high = ([mine[name][key] for name in names] for key in ("share", "low", "high"))
        texts = [f"{mine[name]['count']} of {mine[name]['cells']}" for name in names]
        bars.append(Bars(mechanism, x, y, low, high, texts, style(mechanism)[0], wide))
    ticks = tuple((float(i), f"{name}\n(n = {counts[name]})") for i, name in enumerate(names))
    return Panel("", "share of models", tuple(bars), title, x_range=(-0.6, len(names) - 0.4),
                 y_range=(0, 1.02), ticks=ticks, bare=True)  # fmt: skip


def cutoffs(found: Results) -> Chart:
    """Figure 5, many models: state against parity cutoff."""
    studied = [(called, [row for row in rows if row["cutoff"]]) for called, rows in _studied(found)]
    studied = [(called, rows) for called, rows in studied if rows]
    if not studied:
        raise Missing("no model of the studies has a cutoff")
    several = len(studied) > 1
    panels = tuple(_cutoffs(rows, called if several else "") for called, rows in studied)
    lengths = sorted({row["length"] for _, rows in studied for row in rows})
    whose = "models" if several else "the small models"
    title = f"Cutoffs of {whose}, length {' and '.join(map(str, lengths))} (Figure 5)"
    return Chart("cutoffs", title, panels)


def _cutoffs(rows: list[Row], title: str) -> Panel:
    """A dot for each model; how many they are stands in the title, else in the legend."""
    rows = [row | {"parity_cutoff": row["parity_cutoff"] or row["longest"] + 1} for row in rows]
    most = max(max(row["length"] + 2.0, row["parity_cutoff"] + 1.0) for row in rows)
    marks: list[Any] = [Line("equal", [0.0, most], [0.0, most], "faint", "dash", mark=None)]
    for mechanism in sorted({row["verdict"] for row in rows}, key=order):
        mine = [row for row in rows if row["verdict"] == mechanism]
        x, y = ([float(row[key]) for row in mine] for key in ("cutoff", "parity_cutoff"))
        colour, mark = style(mechanism)
        texts = [row["cell"] for row in mine]
        called = mechanism if title else f"{mechanism} ({len(mine)})"
        marks.append(Dots(called, x, y, texts, colour, mark, 9))
    title = f"{title} ({len(rows)})" if title else ""
    return Panel("state cutoff", "parity cutoff", tuple(marks), title, x_range=(5, most),
                 y_range=(5, most), whole="xy", tall=1.2)  # fmt: skip


PICTURES: dict[str, Callable[[Results], Chart]] = {
    "patching": patching,
    "probes": probes,
    "prism": prism,
    "parity-heads": parity_heads,
    "generalization": generalization,
    "cutoffs": cutoffs,
    "proportions": shares,
}


def fingerprint(chart: Chart) -> str:
    """Of the numbers in a chart and what stands around them."""
    about = [chart.title, [panel.title for panel in chart.panels], chart.rows()]
    return hashlib.sha256(json.dumps(about, default=float).encode()).hexdigest()[:16]


def charts(found: Results) -> dict[str, Chart]:
    """All pictures of which results/ have the numbers."""
    made = {}
    for name, draw in PICTURES.items():
        with contextlib.suppress(Missing):
            made[name] = draw(found)
    return made


def fingerprints(found: Results) -> dict[str, str]:
    return {name: fingerprint(chart) for name, chart in charts(found).items()}


def drawn_last(root: Path) -> dict[str, str]:
    """Fingerprints of the pictures that are there."""
    kept = root / FOLDER / "pictures.json"
    before = json.loads(kept.read_text()) if kept.is_file() else {}
    return {
        name: mark for name, mark in before.items() if (root / FOLDER / f"{name}.png").is_file()
    }


def draw_all(found: Results) -> list[Path]:
    """Write every picture whose numbers have changed, and the fingerprints."""
    folder = found.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    before, made, written = drawn_last(found.root), charts(found), []
    for name, chart in made.items():
        if before.get(name) != fingerprint(chart):
            written.append(folder / f"{name}.png")
            chart.save(written[-1])
    marks = {name: fingerprint(chart) for name, chart in made.items()}
    (folder / "pictures.json").write_text(json.dumps(marks, indent=2) + "\n")
    return written
