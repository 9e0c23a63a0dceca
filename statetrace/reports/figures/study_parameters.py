"""The share of each mechanism against the number of parameters (appendix H).

Caveat: sizes are read from outcomes, so runs without an outcome are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.reports.figures import study_shares
from statetrace.reports.figures.chart import Chart, Line, Panel, numbers

Row = dict[str, Any]


def _stem(model: str) -> str:
    """The family a published size belongs to: distilgpt2 and gpt2-xl are both gpt2."""
    return model.removeprefix("distil").split("-")[0]


def _kind(row: Row, others: Sequence[str]) -> str:
    return ", ".join([_stem(str(row["model"])), *(str(row[name]) for name in others)])


def _sized(path: Path) -> tuple[list[Row], list[str]]:
    """Runs with a verdict, and the factors other than the one that varies the size; empty if none
    does."""
    rows, factors = study_shares.study_rows(path)
    judged = [row for row in rows if row.get("verdict") and row.get("parameters")]
    for factor in factors:
        others = [other for other in factors if other != factor]
        sizes: dict[str, set[int]] = {}
        for row in judged:
            sizes.setdefault(_kind(row, others), set()).add(row["parameters"])
        if any(len(counts) > 1 for counts in sizes.values()):
            families = [_stem(str(row["model"])) for row in judged]  # under whatever name
            return judged, [f for f in others if [str(row[f]) for row in judged] != families]
    return [], []


def sizes_vary(path: Path) -> bool:
    return bool(_sized(path)[0])


def study_sizes(path: Path) -> Chart:
    """A panel per family and regime, a line per mechanism."""
    from statetrace.studies.proportions import proportions

    rows, others = _sized(path)
    if not rows:
        raise StatetraceError(f"no two runs of the study '{path}' differ in size only")
    sizes = sorted({int(row["parameters"]) for row in rows})
    mechanisms = sorted({row["verdict"] for row in rows}, key=study_shares.order)
    panels = []
    for kind in dict.fromkeys(_kind(row, others) for row in rows):
        shares = proportions([row for row in rows if _kind(row, others) == kind], ["parameters"])
        lines = []
        for mechanism in mechanisms:
            series = [row for row in shares if row["mechanism"] == mechanism]
            series.sort(key=lambda row: row["parameters"])
            colour, mark = study_shares.style(mechanism)
            x = [row["parameters"] for row in series]
            share, low, high = (numbers(r[key] for r in series) for key in ("share", "low", "high"))
            lines.append(Line(mechanism, x, share, colour, mark=mark, low=low, high=high))
        marks = tuple(line for line in lines if line.x)
        ticks = _ticks([row["parameters"] for row in shares])
        limits: dict[str, Any] = {"x_range": (sizes[0] / 1.3, sizes[-1] * 1.3), "log_x": True}
        limits["y_range"] = (-0.02, 1.04)
        panels.append(Panel("parameters", "share of runs", marks, kind, ticks=ticks, **limits))
    return Chart("study-sizes", "Mechanisms by number of parameters", tuple(panels))


def _ticks(sizes: Sequence[int]) -> tuple[tuple[float, str], ...]:
    """The sizes that are far enough apart for their labels."""
    shown: list[int] = []
    for size in sorted(set(sizes)):
        if not shown or size > 1.6 * shown[-1]:
            shown.append(size)
    return tuple((float(size), short(size)) for size in shown)


def short(size: int) -> str:
    """ "124M", "1.4B"."""
    for unit, suffix in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{size / unit:.3g}{suffix}"
    return str(size)
