"""The mechanisms that the runs of a study learned, by factor (section 5.2, appendix H), and the
cutoffs of state and parity in each.

Cost: reading one small file per run. Caveat: unfinished runs are left out; the intervals are
Wilson's, as in the table of the study.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.reports.figures.chart import Bars, Chart, Dots, Line, Panel

STYLES = {
    "associative": ("state", "circle"),
    "parity-associative": ("parity", "square"),
    "parallel": ("third", "triangle-up"),
    "sequential": ("fourth", "diamond"),
    "composed-quotient": ("fifth", "square"),
    "mixed": ("grey", "triangle-down"),
    "undecided": ("grey", "diamond"),
    "other": ("sixth", "diamond"),
    "unlearned": ("faint", "circle"),
}
Row = dict[str, Any]


def study_rows(path: Path) -> tuple[list[Row], list[str]]:
    """The runs of a study as rows, and its factors other than the seed."""
    from statetrace.studies.folder import Study
    from statetrace.studies.grid import SEED
    from statetrace.studies.table import results

    study = Study.existing(path)
    return results(study), [factor for factor in study.plan.factors if factor != SEED]


def study_proportions(path: Path) -> Chart:
    """A panel per level of the first factor, with a bar per mechanism and level of the others."""
    from statetrace.studies.proportions import proportions

    rows, factors = study_rows(path)
    shares = proportions(rows, factors)
    if not shares:
        raise StatetraceError(f"no run of the study '{path}' has a verdict yet")
    split = factors[0] if len(factors) > 1 else None
    panels = []
    for level in dict.fromkeys(row[split] if split else "" for row in shares):
        selected = [row for row in shares if not split or row[split] == level]
        others = [factor for factor in factors if factor != split]
        names = list(dict.fromkeys(_levels(row, others) for row in selected))
        mechanisms = sorted({row["mechanism"] for row in selected}, key=order)
        width = 0.8 / len(mechanisms)
        bars = []
        for number, mechanism in enumerate(mechanisms):
            by_level = {_levels(r, others): r for r in selected if r["mechanism"] == mechanism}
            series = [by_level[name] for name in names]
            texts = [
                f"{name}: {mechanism} {row['count']} of {row['cells']} "
                f"({row['low']:.0%} to {row['high']:.0%})"
                for name, row in zip(names, series, strict=True)
            ]
            offset = width * (number - (len(mechanisms) - 1) / 2)
            x = [i + offset for i in range(len(names))]
            share, low, high = ([row[key] for row in series] for key in ("share", "low", "high"))
            colour = STYLES.get(mechanism, ("fifth", ""))[0]
            bars.append(Bars(mechanism, x, share, low, high, texts, colour, width))
        ticks = tuple((float(i), name) for i, name in enumerate(names))
        axis, title = ", ".join(others) or "all", f"{split}: {level}" if split else ""
        limits: dict[str, Any] = {"x_range": (-0.6, len(names) - 0.4), "y_range": (0, 1.02)}
        settings = limits | {"ticks": ticks, "bare": True}
        panels.append(Panel(axis, "share of runs", tuple(bars), title, **settings))
    return Chart("study-proportions", "Learned mechanisms", tuple(panels))


def study_cutoffs(path: Path) -> Chart:
    """The cutoff of the state against that of parity, a mark per run."""
    rows, _ = study_rows(path)
    judged = [row for row in rows if row["verdict"] and row["longest"] and row["parity_accuracy"]]
    if not judged:
        raise StatetraceError(f"no run of the study '{path}' has cutoffs of state and parity yet")
    marks: list[Any] = []
    for mechanism in sorted({row["verdict"] for row in judged}, key=order):
        group = [row for row in judged if row["verdict"] == mechanism]
        colour, mark = style(mechanism)
        state, parity = ([_cutoff(r, key) for r in group] for key in ("cutoff", "parity_cutoff"))
        texts = [f"{row['cell']}: {mechanism}" for row in group]
        marks.append(Dots(f"{mechanism} ({len(group)})", state, parity, texts, colour, mark, 9))
    longest = max(row["longest"] for row in judged)
    ends, limits = [0.0, longest + 1.0], (0.0, longest + 2.0)
    marks.insert(0, Line("equal", ends, ends, "faint", "dash", mark=None))
    panel = Panel("state cutoff", "parity cutoff", tuple(marks), x_range=limits, y_range=limits,
                  whole="xy", tall=1.3)  # fmt: skip
    return Chart("study-cutoffs", "Cutoffs of state and parity", (panel,))


def _levels(row: Row, factors: Sequence[str]) -> str:
    return ", ".join(str(row[factor]) for factor in factors) or "all"


def order(mechanism: str) -> int:
    """Sort key of a mechanism."""
    return list(STYLES).index(mechanism) if mechanism in STYLES else len(STYLES)


def style(mechanism: str) -> tuple[str, str]:
    """Colour and mark of lines and points; pale colours are for bars only."""
    colour, mark = STYLES.get(mechanism, ("fifth", "circle"))
    return ("grey" if colour == "faint" else colour), mark


def _cutoff(row: Row, key: str) -> float:
    """A cutoff; one more than the longest evaluated length if there is none."""
    return float(row[key]) if row[key] is not None else row["longest"] + 1.0
