"""The predicted signatures as a figure, Figure 1 B to D of the paper, and as a table.

One row per algorithm: prefix patching (B), probes (C), and the cells from which the answer is
computed (D). Layer 0, the embedding, is on top.
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
from statetrace.reports.figures.chart import Chart, Dots, Edges, Mark, Panel
from statetrace.reports.figures.predicted import prefix_map, probe_panel

LONGEST_DIAGRAM = 8
"""Length of the diagrams; longer ones are too dense to read."""

SPLITS = {"all": "all pairs", "same": "same parity", "opposite": "opposite parity"}

COLUMNS = (
    *("algorithm", "group", "length", "measure", "where", "split", "target"),
    *("layer", "position", "source", "value"),
)


@dataclass(frozen=True, repr=False)
class SignaturesFigure:
    """The content of the figure.

    Attributes:
        title: of the figure.
        signatures: algorithm -> its signature, or a sentence on why it has none.
        diagrams: algorithm -> the cells that its answer depends on, for short sequences.
    """

    title: str
    signatures: Mapping[str, Signature | str]
    diagrams: Mapping[str, Dependencies]

    def __repr__(self) -> str:
        return f"SignaturesFigure({self.title})"

    def _repr_png_(self) -> bytes:
        return self.chart()._repr_png_()

    def write_table(self, path: Path) -> None:
        """All numbers of the figure, and those of suffix and window patching, as Parquet.

        `measure` is "nld", "accuracy" (see `Signature.table`) or "arrow": the cell (layer,
        position) reads the cell (layer - 1, source).
        """
        tables = [s.table() for s in self.signatures.values() if isinstance(s, Signature)]
        tables += [diagram.table() for diagram in self.diagrams.values()]
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for table in tables:
            rows = len(table["measure"])
            for name, values in columns.items():
                values.extend(table.get(name, [None] * rows))
        pq.write_table(pa.table(columns), path)

    def chart(self) -> Chart:
        """A row of panels per algorithm; algorithms without a signature are named in the title."""
        known = {n: s for n, s in self.signatures.items() if isinstance(s, Signature)}
        missing = [fill(s, 150) for s in self.signatures.values() if isinstance(s, str)]
        splits = [s for s in SPLITS if any(("prefix", s) in k.patching for k in known.values())]
        panels: list[Panel] = []
        for name, signature in known.items():
            for number, split in enumerate(splits):
                title = SPLITS[split] if number else f"{name}: {SPLITS[split]}"
                panels.append(prefix_map(signature.patching.get(("prefix", split)), title))
            panels.append(probe_panel(signature, f"probes, lengths 1-{signature.length}"))
            panels.append(_diagram(self.diagrams[name]))
        title = "\n".join([self.title, *missing])
        return Chart("signatures", title, tuple(panels), columns=len(splits) + 2)


def _diagram(diagram: Dependencies) -> Panel:
    """Cells as nodes, coloured where the answer uses them, and edges between those."""
    rows, length = diagram.used.shape
    carried = [((s, n - 1), (t, n)) for n, s, t in diagram.arrows if s == t]
    moved = [((s, n - 1), (t, n)) for n, s, t in diagram.arrows if s != t]
    dots: list[Mark] = []
    for used, name, colour in ((False, "unused cell", "faint"), (True, "used cell", "fifth")):
        layers, tokens = np.nonzero(diagram.used == used)
        dots.append(Dots(name, tokens.tolist(), layers.tolist(), colour=colour, size=8))
    answer = Dots("answer", [length - 1], [rows - 1], colour="ink", size=10)
    edges = (Edges("same token", carried, colour="grey"), Edges("other token", moved))
    marks = (*edges, *dots, answer)
    title = f"cells used, length {length}"
    return Panel("token", "layer", marks, title, down=True, whole="xy", bare=True)
