"""Pictures of many models (Figures 5, 7, 17, 18), those of the paper's size beside small ones."""

from __future__ import annotations

from typing import Any

from reproduction.claims.names import BOTH, SCRATCH
from reproduction.measures.studies import judged, so_far
from reproduction.results import Missing, Results, Row
from statetrace.reports.figures.chart import Bars, Chart, Dots, Line, Panel
from statetrace.reports.figures.study_shares import order, style
from statetrace.studies.proportions import proportions


def _studied(found: Results) -> list[tuple[str, list[Row]]]:
    """Judged models of the studies, the small ones and those of the paper's size apart: what a
    panel is called, and its rows."""
    every = (
        ("small models", judged(found, BOTH, "verdict")),
        ("the paper's size", judged(found, (SCRATCH,), "verdict")),
    )
    return [
        (" ".join(filter(None, (called, so_far(rows)))), rows) for called, rows in every if rows
    ]


def shares(found: Results) -> Chart:
    """Figures 7 and 18: which mechanism models learned."""
    studied = _studied(found)
    if not studied:
        raise Missing("no model of the studies has a verdict")
    panels = tuple(
        bars(_told(rows, "regime"), called if len(studied) > 1 else "") for called, rows in studied
    )
    whose = "the small models" if len(studied) == 1 else "models"
    return Chart("proportions", f"Mechanisms of {whose} (Figures 7 and 18)", panels)


def sizes(found: Results) -> Chart:
    """Figure 17, of smaller models: which mechanism, by family and width."""
    panels = []
    for study, called in (("small", "small models"), ("tiny", "very small models")):
        rows = judged(found, (study,), "verdict")
        panels += [bars(_told(rows, "width"), called)] if rows else []
    if not panels:
        raise Missing("no smaller model has a verdict")
    return Chart("sizes", "Mechanisms of smaller models, by width (Figure 17)", tuple(panels))


def regimes(found: Results) -> Chart:
    """Figures 7 and 18 and appendix H, of smaller models: after what they were taught before."""
    panels = []
    for study in ("small-regimes", "tiny-regimes", "tiny-pythia"):
        rows = judged(found, (study,), "verdict")
        told = [row | {"what": lines(row["regime"])} for row in rows]
        about = [f"{row['model']}, width {row['width']}" for row in rows[:1]]
        panels += [bars(told, *about)] if rows else []
    if not panels:
        raise Missing("no model that was taught something before has a verdict")
    title = "Mechanisms of smaller models, after other tasks (Figures 7 and 18, App. H)"
    return Chart("regimes", title, tuple(panels))


def _told(rows: list[Row], by: str) -> list[Row]:
    """With what a bar stands for: the family and one setting of it."""
    plain = {"regime": "scratch"}
    return [
        row | {"what": f"{row['model']}\n{lines(row.get(by) or plain.get(by, ''))}"} for row in rows
    ]


def lines(regime: Any) -> str:
    """A name in short lines, so that many stand side by side."""
    return str(regime).replace("auxiliary-", "aux.\n").replace("-", " ")


def bars(rows: list[Row], title: str) -> Panel:
    """A group of bars for each of what the models are (`what`)."""
    table = proportions(rows, ["what"])
    names = list(dict.fromkeys(row["what"] for row in table))
    counts = {row["what"]: row["cells"] for row in table}
    mechanisms = sorted({row["mechanism"] for row in table}, key=order)
    wide = 0.8 / len(mechanisms)
    drawn: list[Any] = []
    for number, mechanism in enumerate(mechanisms):
        mine = {row["what"]: row for row in table if row["mechanism"] == mechanism}
        x = [i + wide * (number - (len(mechanisms) - 1) / 2) for i in range(len(names))]
        y, low, high = ([mine[name][key] for name in names] for key in ("share", "low", "high"))
        texts = [f"{mine[name]['count']} of {mine[name]['cells']}" for name in names]
        drawn.append(Bars(mechanism, x, y, low, high, texts, style(mechanism)[0], wide))
    ticks = tuple((float(i), f"{name}\nn = {counts[name]}") for i, name in enumerate(names))
    return Panel("", "share of models", tuple(drawn), title, x_range=(-0.6, len(names) - 0.4),
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
