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
from pathlib import Path

from reproduction.figures.algorithms import compiled, patched, probed
from reproduction.figures.appendices import (
    deletions,
    depth,
    deviations,
    last_layer,
    last_layer_linear,
    parity_last,
    patching_zoo,
    probes_by_length,
    tree,
)
from reproduction.figures.evidence import leads, lenses, needed_heads
from reproduction.figures.geometry import clusters, prisms
from reproduction.figures.groups import examples, generating, tables
from reproduction.figures.heads import heads, table_1, table_2
from reproduction.figures.lengths import beyond, further, generalization_s5, midway
from reproduction.figures.models import (
    generalization,
    parity_heads,
    patching,
    patching_s5,
    prism,
    probes,
    probes_s5,
    text,
    training,
)
from reproduction.figures.spread import losses, s5_shape, sparse
from reproduction.figures.stages import orders, pushes, stages, start, topics
from reproduction.figures.studies import cutoffs, regimes, shares, sizes
from reproduction.results import Missing, Results
from statetrace.reports.figures.chart import Chart

FOLDER = Path("docs/reproduction")

PICTURES: dict[str, Callable[[Results], Chart]] = {
    "examples": examples,
    "tables": tables,
    "generators": generating,
    "algorithms-patching": patched,
    "algorithms-probes": probed,
    "compiled": compiled,
    "patching": patching,
    "patching-zoo": patching_zoo,
    "patching-s5": patching_s5,
    "depth": depth,
    "deletions": deletions,
    "deviations": deviations,
    "probes": probes,
    "probes-s5": probes_s5,
    "probes-by-length": probes_by_length,
    "last-parity": parity_last,
    "lenses": lenses,
    "table-1": table_1,
    "prism": prism,
    "prisms": prisms,
    "last-layer": last_layer,
    "last-layer-linear": last_layer_linear,
    "s5-clusters": clusters,
    "s5-shape": s5_shape,
    "text": text,
    "table-2": table_2,
    "needed-heads": needed_heads,
    "heads": heads,
    "parity-heads": parity_heads,
    "tree": tree,
    "sparse": sparse,
    "generalization": generalization,
    "generalization-s5": generalization_s5,
    "beyond": beyond,
    "cutoffs": cutoffs,
    "training": training,
    "midway": midway,
    "leads": leads,
    "further": further,
    "losses": losses,
    "proportions": shares,
    "orders": orders,
    "sizes": sizes,
    "topics": topics,
    "pushes": pushes,
    "start": start,
    "regimes": regimes,
    "stages": stages,
}


UNDRAWN = {
    "tree-settings": "settings, which the row has in full",
    "swaps": "an exact count, in which all permutations are alike",
}
"""Claims with a number and without a picture, and why."""


def fingerprint(chart: Chart) -> str:
    """Of the numbers in a chart and what stands around them."""
    panels = [(panel.title, panel.x, panel.y, panel.ticks) for panel in chart.panels]
    about = [chart.title, panels, chart.rows()]
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
    """Write every picture whose numbers have changed, and the fingerprints; a picture that has no
    numbers any more goes."""
    folder = found.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    before, made, written = drawn_last(found.root), charts(found), []
    for name, chart in made.items():
        if before.get(name) != fingerprint(chart):
            written.append(folder / f"{name}.png")
            chart.save(written[-1])
    for name in before.keys() - made.keys():
        (folder / f"{name}.png").unlink()
    marks = {name: fingerprint(chart) for name, chart in made.items()}
    (folder / "pictures.json").write_text(json.dumps(marks, indent=2) + "\n")
    return written
