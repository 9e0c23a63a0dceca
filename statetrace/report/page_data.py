"""Figures made ready for the page: every view of every figure, for every run and checkpoint.

A plate is a figure of the page: its controls, and a cell per run (or per algorithm). Numbers are
stored once: views refer to traces in a pool, as most views share some.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.report.figures import plotly_renderer as screen
from statetrace.report.figures.catalogue import CATALOGUE, STUDY, Entry
from statetrace.report.figures.chart import Chart, Heat, Panel
from statetrace.report.run_results import RunResults

SEPARATOR = "\u241f"
Charts = dict[str, Chart]  # the options chosen, joined -> chart


class TracePool:
    """Traces, each stored once."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._known: dict[str, int] = {}

    def add(self, trace: Any) -> int:
        key = json.dumps(trace, allow_nan=False)
        if key not in self._known:
            self._known[key] = len(self.items)
            self.items.append(trace)
        return self._known[key]


@dataclass
class FigureState:
    """A cell at one checkpoint: its charts, or why there are none."""

    charts: Charts = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    missing: str = ""
    command: str = ""


@dataclass
class FigureColumn:
    """A column of a plate: a run at each of its checkpoints, or an algorithm (`run` is None)."""

    head: str
    run: int | None
    shots: list[FigureState]


@dataclass
class PageFigure:
    """One figure of the page."""

    name: str
    title: str
    about: str
    controls: dict[str, list[str]]
    cells: list[FigureColumn]
    pool: TracePool
    linked: bool = True
    small: bool = False

    def as_json(self) -> dict[str, Any]:
        if self.linked:
            _same_ranges(self.cells)
        return {
            "name": self.name,
            "title": self.title,
            "linked": self.linked,
            "controls": list(self.controls),
            "cells": [
                {"head": cell.head, "run": cell.run, "shots": [self._shot(s) for s in cell.shots]}
                for cell in self.cells
            ],
        }

    def _shot(self, shot: FigureState) -> dict[str, Any]:
        return {
            "views": {
                key: {"title": chart.title, "panels": [self._panel(p) for p in chart.panels]}
                for key, chart in shot.charts.items()
            },
            "tables": shot.tables,
            "missing": shot.missing,
            "command": shot.command,
        }

    def _panel(self, panel: Panel) -> dict[str, Any]:
        drawn = screen.picture(panel)
        found: dict[str, Any] = {"data": [self.pool.add(trace) for trace in drawn["data"]]}
        found["layout"] = self.pool.add(drawn["layout"])
        if panel.heat is not None:
            found["scale"] = [panel.heat.label, panel.heat.low, panel.heat.high]
        return found


def figures(
    runs: Sequence[Sequence[RunResults]], names: Sequence[str], pool: TracePool, pairs: bool = True
) -> list[PageFigure]:
    """Every figure of the catalogue, a cell per run; without `pairs`, no single pairs."""
    plates = []
    for entry in CATALOGUE:
        if not any(entry.applies(each[-1]) for each in runs):
            continue
        controls: dict[str, list[str]] = {}
        cells = []
        for number, (each, name) in enumerate(zip(runs, names, strict=True)):
            # the log is one for all checkpoints
            looked_at = each[-1:] if entry.lens in ("dynamics", "") else each
            shots = [_shot(entry, look, controls, pairs) for look in looked_at]
            cells.append(FigureColumn(name, number, shots))
        plates.append(PageFigure(entry.name, entry.title, entry.about, controls, cells, pool))
    return plates


def studies(paths: Sequence[Path], names: Sequence[str], pool: TracePool) -> list[PageFigure]:
    """The figures of study folders, a cell per study."""
    plates = []
    for entry in STUDY:
        if not any(entry.applies(path) for path in paths):
            continue
        cells = []
        for path, called in zip(paths, names, strict=True):
            try:
                shot = FigureState({"": entry.draw(path)})
                for title, made in entry.tables.items():
                    head, rows = made(path)
                    shot.tables.append({"title": title, "head": head, "rows": _short(rows)})
            except StatetraceError as reason:
                shot = FigureState(missing=f"Nothing to draw: {reason}.")
            cells.append(FigureColumn(called, None, [shot]))
        plates.append(
            PageFigure(entry.name, entry.title, entry.about, {}, cells, pool, len(paths) > 1)
        )
    return plates


def _shot(
    entry: Entry, look: RunResults, controls: dict[str, list[str]], pairs: bool
) -> FigureState:
    """All views of one figure of one checkpoint; `controls` learns of the options there are."""
    if entry.lens and look.lens(entry.lens) is None:
        if entry.lens == "dynamics" and look.logless:
            return FigureState(
                missing="It was not trained here, so there is no log of its training."
            )
        return FigureState(
            missing=f"No {entry.lens} results yet.", command=look.command(entry.lens)
        )
    shot = FigureState()
    try:
        for control, options in entry.choices(look).items():
            known = controls.setdefault(control, [])
            options = [one for one in options if pairs or not one.startswith("pair ")]
            known += [one for one in options if one not in known]
        for chosen, draw in entry.views(look):
            if pairs or not any(word.startswith("pair ") for word in chosen):
                shot.charts.update(_tried(SEPARATOR.join(chosen), draw))
        if not shot.charts:
            next(iter(entry.views(look)))[1]()  # its reason is the line to show
    except StopIteration:
        return FigureState(missing=f"The {entry.lens} results hold nothing to draw here.")
    except StatetraceError as reason:  # it was measured, and cannot be drawn: no command would help
        said = str(reason)
        return FigureState(missing=f"{said[:1].upper()}{said[1:]}.")
    except (KeyError, IndexError, ValueError, TypeError) as error:
        if not entry.lens:
            return FigureState(missing=f"The log is not as expected ({type(error).__name__}).")
        said = f"The {entry.lens} results are not as expected ({type(error).__name__})."
        return FigureState(missing=said, command=look.command(entry.lens))
    for title, made in entry.tables.items():
        try:
            head, rows = made(look)
        except (StatetraceError, KeyError, IndexError, TypeError):
            continue
        if rows:
            shot.tables.append({"title": title, "head": head, "rows": _short(rows)})
    return shot


def _tried(key: str, draw: Callable[[], Chart]) -> Charts:
    """A view that does not exist (pair 4 of a split with three) is left out."""
    try:
        return {key: draw()}
    except StatetraceError:
        return {}


def _short(rows: list[list[Any]]) -> list[list[Any]]:
    return [
        [f"{cell:.3g}" if isinstance(cell, float) else "" if cell is None else cell for cell in row]
        for row in rows
    ]


def _same_ranges(cells: list[FigureColumn]) -> None:
    """Linked axes: the same view has the same ranges and colour scale in all runs and at all
    checkpoints, so that eye and slider compare like with like."""
    groups: dict[tuple[str, int], list[tuple[FigureState, str]]] = {}
    for cell in cells:
        for shot in cell.shots:
            for key, chart in shot.charts.items():
                for i in range(len(chart.panels)):
                    groups.setdefault((key, i), []).append((shot, key))
    for (key, i), places in groups.items():
        panels = [shot.charts[key].panels[i] for shot, _ in places]
        if len(panels) < 2 or any(panel.z is not None for panel in panels):
            continue
        x = _union(panel.extent("x") for panel in panels)
        y = _union(panel.extent("y") for panel in panels)
        highest = max((p.heat.high for p in panels if p.heat is not None), default=None)
        for (shot, _), panel in zip(places, panels, strict=True):
            marks = tuple(
                replace(m, high=highest) if isinstance(m, Heat) and highest is not None else m
                for m in panel.marks
            )
            same = len({p.ticks for p in panels}) == 1
            panel = replace(panel, marks=marks, y_range=y, x_range=x if same else panel.x_range)
            chart = shot.charts[key]
            made = [*chart.panels[:i], panel, *chart.panels[i + 1 :]]
            shot.charts[key] = replace(chart, panels=tuple(made))


def _union(found: Iterator[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [one for one in found if one is not None]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)
