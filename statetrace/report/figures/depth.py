"""How many layers an answer needs, by length: constant, logarithmic or linear, by split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from statetrace.report.figures.chart import Chart, Heat, Line, Panel, grid, numbers
from statetrace.report.run_results import RunResults

NAME = "depth"
TITLE = "Layers an answer needs, by length"
ABOUT = (
    "The last token starts again from the corrupted run at some layer while all others stay clean; "
    "as long as the clean answer still comes out, it was not settled. Left: layers needed. Right: "
    "the share of the clean answer that is brought back, by layer. Counting needs the same number "
    "of layers at every length, association one more for each doubling, one-by-one composition one "
    "for each action."
)
STYLES = {
    "all": ("all pairs", "grey", "dash", "diamond"),
    "same parity": ("same parity", "state", "solid", "circle"),
    "opposite parity": ("opposite parity", "parity", "solid", "square"),
}


def choices(look: RunResults) -> dict[str, list[str]]:
    return {"pairs": list(look.need("depth").summary["layers_needed"])}


def by_split(
    lengths: Sequence[int], needed: Mapping[str, Sequence[float | None]], tall: float = 1.0
) -> Panel:
    """Layers needed against length, a line for each split of the pairs."""
    lines = []
    for split, values in needed.items():
        called, colour, dash, mark = STYLES.get(split, (split, "third", "solid", "triangle-up"))
        lines.append(Line(called, list(lengths), numbers(values), colour, dash, mark=mark))
    top = max((v for values in needed.values() for v in values if v is not None), default=1.0)
    return Panel(
        "length",
        "layers needed",
        tuple(lines),
        y_range=(0, max(2.0, 1.1 * top)),
        log_x=True,
        whole="x",
        ticks=tuple((float(n), str(n)) for n in lengths if _told(n, lengths[-1])),
        tall=tall,
    )


def _told(n: int, longest: int) -> bool:
    """Whether it has room at the axis, on a phone as well: powers of two, and the longest."""
    return n == longest or (n & (n - 1) == 0 and n * 1.6 < longest)


def depth(look: RunResults, pairs: str = "all") -> Chart:
    """The lines for all splits, and the shares for one."""
    result = look.need("depth")
    lengths = [int(n) for n in result.summary["lengths"]]
    rows = [row for row in result.rows() if row["split"] == pairs]
    layers = 1 + max((row["layer"] for row in rows), default=0)
    values: dict[str, Any] = {
        key: np.full((layers, len(lengths)), np.nan) for key in ("mean", "std", "n")
    }
    for row in rows:
        for key, cells in values.items():
            cells[row["layer"], lengths.index(row["length"])] = row[key]
    more = (("deviation", grid(values["std"])), ("pairs", grid(values["n"])))
    places = list(range(len(lengths)))
    heat = Heat(places, list(range(layers)), grid(values["mean"]), "share brought back", more=more)
    ticks = tuple((float(i), str(n)) for i, n in enumerate(lengths))
    shares = Panel("length", "layer", (heat,), down=True, whole="y", ticks=ticks)
    lines = by_split(lengths, result.summary["layers_needed"])
    return Chart(NAME, f"Layers needed by length ({pairs})", (lines, shares), ABOUT)
