"""What many runs learned: how often which mechanism, by factor (section 5.2, appendix H), and how
far state and parity reached in each.

Cost: reading one small file per run. Caveat: runs that have not ended are left out; the shares'
intervals are Wilson's, as in the study's own table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.report.figures.chart import Bars, Chart, Dots, Line, Panel

SHARES = "study-proportions"
SHARES_TITLE = "Which mechanism was learned"
SHARES_ABOUT = (
    "The share of runs that learned each mechanism, for every combination of what was varied; runs "
    "that differ only in the order of their data are repetitions. The thin lines are Wilson's 95% "
    "intervals; point at a bar for the number of runs."
)
CUTOFFS = "study-cutoffs"
CUTOFFS_TITLE = "How far state and parity reach"
CUTOFFS_ABOUT = (
    "The first length below 98% for the state and for its parity, one mark per run; in brackets "
    "how many runs there are, as marks may lie on each other. Runs above the diagonal know parity "
    "where they no longer know the state."
)
STYLES = {
    "associative": ("state", "circle"),
    "parity-associative": ("parity", "square"),
    "parallel": ("third", "triangle-up"),
    "sequential": ("fourth", "diamond"),
    "mixed": ("grey", "triangle-down"),
    "unlearned": ("faint", "circle"),
}
Row = dict[str, Any]


def study_rows(path: Path) -> tuple[list[Row], list[str]]:
    """A study's runs as rows, and what was varied apart from the seed."""
    from statetrace.studies.folder import Study
    from statetrace.studies.grid import SEED
    from statetrace.studies.table import results

    study = Study.existing(path)
    return results(study), [factor for factor in study.plan.factors if factor != SEED]


def study_proportions(path: Path) -> Chart:
    """A panel for each level of the first factor; for the rest a bar per mechanism."""
    from statetrace.studies.proportions import proportions

    rows, factors = study_rows(path)
    shares = proportions(rows, factors)
    if not shares:
        raise StatetraceError(f"no run of the study '{path}' has a verdict yet")
    split = factors[0] if len(factors) > 1 else None
    panels = []
    for level in dict.fromkeys(row[split] if split else "" for row in shares):
        here = [row for row in shares if not split or row[split] == level]
        others = [factor for factor in factors if factor != split]
        names = list(dict.fromkeys(_levels(row, others) for row in here))
        mechanisms = sorted({row["mechanism"] for row in here}, key=order)
        wide = 0.8 / len(mechanisms)
        bars = []
        for number, mechanism in enumerate(mechanisms):
            mine = {_levels(row, others): row for row in here if row["mechanism"] == mechanism}
            found = [mine[name] for name in names]
            texts = [
                f"{name}: {mechanism} {row['count']} of {row['cells']} "
                f"({row['low']:.0%} to {row['high']:.0%})"
                for name, row in zip(names, found, strict=True)
            ]
            beside = wide * (number - (len(mechanisms) - 1) / 2)
            x = [i + beside for i in range(len(names))]
            share, low, high = ([row[key] for row in found] for key in ("share", "low", "high"))
            colour = STYLES.get(mechanism, ("fifth", ""))[0]
            bars.append(Bars(mechanism, x, share, low, high, texts, colour, wide))
        ticks = tuple((float(i), name) for i, name in enumerate(names))
        panels.append(
            Panel(
                ", ".join(others) or "all",
                "share of runs",
                tuple(bars),
                title=f"{split}: {level}" if split else "",
                x_range=(-0.6, len(names) - 0.4),
                y_range=(0, 1.02),
                ticks=ticks,
                bare=True,
            )
        )
    return Chart(SHARES, SHARES_TITLE, tuple(panels), SHARES_ABOUT)


def study_cutoffs(path: Path) -> Chart:
    """State against parity, a mark per run."""
    rows, _ = study_rows(path)
    ended = [row for row in rows if row["verdict"] and row["longest"] and row["parity_accuracy"]]
    if not ended:
        raise StatetraceError(f"no run of the study '{path}' has cutoffs of state and parity yet")
    marks: list[Any] = []
    for mechanism in sorted({row["verdict"] for row in ended}, key=order):
        mine = [row for row in ended if row["verdict"] == mechanism]
        colour, mark = style(mechanism)
        state, parity = ([_reach(row, key) for row in mine] for key in ("cutoff", "parity_cutoff"))
        texts = [f"{row['cell']}: {mechanism}" for row in mine]
        called = f"{mechanism} ({len(mine)})"  # marks may lie on each other
        marks.append(Dots(called, state, parity, texts, colour, mark, 9))
    ends = [0.0, max(row["longest"] for row in ended) + 1.0]
    marks.insert(0, Line("equal", ends, ends, "faint", "dash", mark=None))
    limits = (0.0, max(row["longest"] for row in ended) + 2.0)
    panel = Panel("state cutoff", "parity cutoff", tuple(marks), x_range=limits, y_range=limits,
                  whole="xy", tall=1.3)  # fmt: skip
    return Chart(CUTOFFS, CUTOFFS_TITLE, (panel,), CUTOFFS_ABOUT)


def _levels(row: Row, factors: Sequence[str]) -> str:
    return ", ".join(str(row[factor]) for factor in factors) or "all"


def order(mechanism: str) -> int:
    """Where it stands among others."""
    return list(STYLES).index(mechanism) if mechanism in STYLES else len(STYLES)


def style(mechanism: str) -> tuple[str, str]:
    """Colour and mark of thin things; what is pale as a bar would not be seen."""
    colour, mark = STYLES.get(mechanism, ("fifth", "circle"))
    return ("grey" if colour == "faint" else colour), mark


def _reach(row: Row, key: str) -> float:
    """A cutoff; one past the longest length that was tried where there was none."""
    return float(row[key]) if row[key] is not None else row["longest"] + 1.0
