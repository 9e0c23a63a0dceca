"""The predicted signatures as a picture, Figure 1 B to D of the paper, and as the table behind it.

One row per algorithm: prefix patching (B), what probes read (C), and which cells the answer comes
from (D). Layer 0, the embedding, is on top, so that deeper is further down as in the paper's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from statetrace.mechanisms.dependencies import Dependencies
from statetrace.mechanisms.signatures import Signature
from statetrace.report.accuracy import COLOURS

SPLITS = {"all": "all pairs", "same": "same parity", "opposite": "opposite parity"}

PROBES = {
    "state": ("state", COLOURS[0], "-", "o"),
    "parity linear": ("parity, if linear in the state", COLOURS[1], "--", "s"),
    "parity hidden": ("parity, if not linear", COLOURS[2], ":", "^"),
}
"""Target -> what the legend says, colour, line, mark: told apart without colour as well."""

COLUMNS = (
    *("algorithm", "group", "length", "measure", "where", "split", "target"),
    *("layer", "position", "source", "value"),
)


@dataclass(frozen=True)
class SignaturesFigure:
    """What is drawn.

    Attributes:
        title: over the picture.
        signatures: algorithm -> what it predicts, or the sentence that says why there is none.
        diagrams: algorithm -> what its answers come from, for sequences short enough to draw.
    """

    title: str
    signatures: Mapping[str, Signature | str]
    diagrams: Mapping[str, Dependencies]

    def write_table(self, path: Path) -> None:
        """All numbers of the picture, and those of suffix and window patching, as Parquet.

        `measure` is "nld", "accuracy" (see `Signature.table`) or "arrow": the cell (layer,
        position) reads the cell (layer - 1, source).
        """
        parts = [
            found.table() for found in self.signatures.values() if isinstance(found, Signature)
        ]
        parts += [diagram.table() for diagram in self.diagrams.values()]
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for part in parts:
            rows = len(part["measure"])
            for name, values in columns.items():
                values.extend(part.get(name, [None] * rows))
        pq.write_table(pa.table(columns), path)

    def draw(self, path: Path) -> None:
        """PNG, PDF or SVG, by the ending of the name."""
        from matplotlib.figure import Figure  # not pyplot: a notebook keeps its own backend

        rows = list(self.signatures.items())
        heights = [1.0 if isinstance(found, Signature) else 0.4 for _, found in rows]
        figure = Figure(figsize=(15, 0.6 + 2.7 * sum(heights)), layout="constrained")
        figure.suptitle(self.title, fontsize=13)
        bands = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        explained = False
        for band, (name, found) in zip(bands, rows, strict=True):
            band.suptitle(name, x=0.006, ha="left", fontsize=12, fontweight="bold")
            if isinstance(found, str):
                band.text(0.03, 0.45, fill(found, 150), va="center", fontsize=10)
                continue
            splits = [split for split in SPLITS if ("prefix", split) in found.patching]
            axes = band.subplots(1, len(splits) + 2, width_ratios=[*[1] * len(splits), 1.2, 1.4])
            for place, split in zip(axes, splits, strict=False):
                _heat_map(place, found.patching["prefix", split])
                place.set_title(f"B  prefix patching, {SPLITS[split]}", fontsize=9, loc="left")
            bar = band.colorbar(_scale(), ax=axes[: len(splits)], pad=0.01, ticks=(0, 0.5, 1))
            bar.set_label("NLD", fontsize=9)
            _curves(axes[-2], found)
            _diagram(axes[-1], self.diagrams[name])
            if not explained:
                band.legend(*axes[-2].get_legend_handles_labels(), **_LEGEND)
                explained = True
        figure.savefig(path, dpi=130)


_LEGEND: dict[str, Any] = {
    "loc": "outside upper right",
    "ncols": 3,
    "frameon": False,
    "fontsize": 9,
}


def _scale() -> Any:
    """One scale for all maps: NLD may leave 0 to 1 in a model, but not in a prediction."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0, 1), "cividis")


def _heat_map(axes: Any, grid: np.ndarray) -> None:
    """Mean NLD [rows, T]; cells without pairs stay white."""
    rows, length = grid.shape
    scale = _scale()
    axes.imshow(
        grid,
        cmap=scale.cmap,
        norm=scale.norm,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, length + 0.5, rows - 0.5, -0.5),
    )
    axes.set(xlabel="first actions patched", ylabel="layer")
    _whole_numbers(axes)


def _curves(axes: Any, found: Signature) -> None:
    """Probe accuracy by layer, the mean over lengths 1 to T: the share of states that are read."""
    layers = np.arange(found.rows)
    size = 8.0
    for target, grid in found.probes().items():
        label, colour, line, mark = PROBES[target]
        style = {"linestyle": line, "marker": mark if found.rows <= 16 else None}
        axes.plot(
            layers,
            grid.mean(1),
            color=colour,
            label=label,
            markersize=size,
            markerfacecolor="none",
            clip_on=False,
            **style,
        )
        size -= 2  # smaller ones on top, so that equal curves all show
    axes.set_title(f"C  probes, mean over lengths 1-{found.length}", fontsize=9, loc="left")
    axes.set(xlabel="layer", ylabel="accuracy", ylim=(0, 1.03), yticks=(0, 0.5, 1))
    axes.spines[["top", "right"]].set_visible(False)
    _whole_numbers(axes)


def _diagram(axes: Any, diagram: Dependencies) -> None:
    """Cells as nodes, filled where the answer uses them, and arrows between those."""
    rows, length = diagram.used.shape
    for layer, source, target in diagram.arrows:
        axes.annotate(
            "",
            xy=(target, layer),
            xytext=(source, layer - 1),
            arrowprops={
                "arrowstyle": "->",
                "color": COLOURS[0] if source != target else "dimgrey",
                "linewidth": 0.8,
                "alpha": 0.75,
                "shrinkA": 4,
                "shrinkB": 4,
            },
        )
    for used, inside, edge in ((False, "whitesmoke", "lightgrey"), (True, COLOURS[4], "grey")):
        layers, tokens = np.nonzero(diagram.used == used)
        axes.scatter(tokens, layers, s=38, color=inside, edgecolors=edge, zorder=3)
    axes.scatter(length - 1, rows - 1, s=95, facecolors="none", edgecolors="black", zorder=4)
    axes.set_title(f"D  cells behind the answer (ringed), length {length}", fontsize=9, loc="left")
    axes.set(
        xlim=(-0.5, length - 0.5),
        ylim=(rows - 0.5, -0.5),
        xlabel="token",
        ylabel="layer",
        xticks=range(length),
        yticks=range(rows),
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _whole_numbers(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if axes.get_ylabel() == "layer":
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
