"""The data of the page: every view of every figure, for every run and checkpoint.

A `PageFigure` has controls and a column per run (or per algorithm). Most views share traces, so
traces are stored once, in a `TracePool`, and views refer to them by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.reports.figures.catalogue import STUDY, Entry, FigureText, all_figures, figure_text
from statetrace.reports.figures.chart import Chart, Heat, Panel
from statetrace.reports.figures.plotly_renderer import picture
from statetrace.reports.run_results import RunResults

SEPARATOR = "\u241f"
PAIR = "pair "
"""Prefix of the options that show a single pair."""


class TracePool:
    """Traces, each stored once."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self._numbers: dict[str, int] = {}

    def add(self, trace: Any) -> int:
        key = json.dumps(trace, allow_nan=False)
        if key not in self._numbers:
            self._numbers[key] = len(self.traces)
            self.traces.append(trace)
        return self._numbers[key]


@dataclass
class FigureState:
    """A column at one checkpoint: its charts by chosen options, or why there are none."""

    charts: dict[str, Chart] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    missing: str = ""
    command: str = ""

    def as_json(self, pool: TracePool) -> dict[str, Any]:
        return {
            "views": {
                key: {"title": chart.title, "panels": [_panel(p, pool) for p in chart.panels]}
                for key, chart in self.charts.items()
            },
            "tables": self.tables,
            "missing": self.missing,
            "command": self.command,
        }


@dataclass
class FigureColumn:
    """A run at each of its checkpoints, or an algorithm (`run` is None)."""

    head: str
    run: int | None
    states: list[FigureState]


@dataclass
class PageFigure:
    """One figure of the page."""

    name: str
    controls: dict[str, list[str]]
    columns: list[FigureColumn]
    linked: bool = True
    small: bool = False

    def __post_init__(self) -> None:
        if self.linked:
            _share_ranges(self.columns)

    @property
    def text(self) -> FigureText:
        return figure_text(self.name)

    @property
    def unmeasured(self) -> bool:
        """Whether no column has anything to draw, predictions aside."""
        columns = [column for column in self.columns if column.run is not None] or self.columns
        return not any(state.charts for column in columns for state in column.states)

    def thinned(self, pairs: bool, checkpoints: Sequence[Sequence[int]]) -> PageFigure:
        """The figure with some checkpoints of each run only; without single pairs unless
        `pairs`."""
        columns = []
        for column in self.columns:
            states = column.states
            if column.run is not None and len(states) > 1:
                states = [states[number] for number in checkpoints[column.run]]
            if not pairs:
                states = [replace(state, charts=_without_pairs(state.charts)) for state in states]
            columns.append(replace(column, states=states))
        controls = {
            control: [option for option in options if pairs or not option.startswith(PAIR)]
            for control, options in self.controls.items()
        }
        return replace(self, controls=controls, columns=columns)

    def as_json(self, pool: TracePool) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.text.title,
            "linked": self.linked,
            "controls": list(self.controls),
            "columns": [
                {"head": c.head, "run": c.run, "states": [s.as_json(pool) for s in c.states]}
                for c in self.columns
            ],
        }


def _without_pairs(charts: dict[str, Chart]) -> dict[str, Chart]:
    return {
        key: chart
        for key, chart in charts.items()
        if not any(option.startswith(PAIR) for option in key.split(SEPARATOR))
    }


def _panel(panel: Panel, pool: TracePool) -> dict[str, Any]:
    drawn = picture(panel)
    data: dict[str, Any] = {"data": [pool.add(trace) for trace in drawn["data"]]}
    data["layout"] = pool.add(drawn["layout"])
    if panel.heat is not None:
        data["scale"] = panel.heat.scale
    return data


def run_figures(runs: Sequence[Sequence[RunResults]], names: Sequence[str]) -> list[PageFigure]:
    """Every figure of the catalogue, a column per run."""
    figures = []
    for entry in all_figures(results for checkpoints in runs for results in checkpoints):
        if not any(entry.applies(checkpoints[-1]) for checkpoints in runs):
            continue
        controls: dict[str, list[str]] = {}
        columns = []
        for number, (checkpoints, name) in enumerate(zip(runs, names, strict=True)):
            # all checkpoints share one log
            shown = checkpoints[-1:] if entry.lens in ("dynamics", "") else checkpoints
            states = [_state(entry, results, controls) for results in shown]
            columns.append(FigureColumn(name, number, states))
        figures.append(PageFigure(entry.name, controls, columns))
    return figures


def study_figures(paths: Sequence[Path], names: Sequence[str]) -> list[PageFigure]:
    """The figures of study folders, a column per study."""
    figures = []
    for entry in STUDY:
        if not any(entry.applies(path) for path in paths):
            continue
        columns = []
        for path, name in zip(paths, names, strict=True):
            try:
                state = FigureState({"": entry.draw(path)})
                state.tables = [_table(title, *make(path)) for title, make in entry.tables.items()]
            except StatetraceError as reason:
                state = FigureState(missing=f"Nothing to draw: {reason}.")
            columns.append(FigureColumn(name, None, [state]))
        figures.append(PageFigure(entry.name, {}, columns, linked=len(paths) > 1))
    return figures


def missing_state(results: RunResults, lens: str) -> FigureState:
    """A column of a lens that has no result."""
    reason, command = results.missing(lens)
    return FigureState(missing=_sentence(reason), command=command)


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _state(entry: Entry, results: RunResults, controls: dict[str, list[str]]) -> FigureState:
    """All views of one figure at one checkpoint; adds their options to `controls`."""
    if entry.lens and results.lens(entry.lens) is None:
        return missing_state(results, entry.lens)
    state = FigureState()
    try:
        for control, options in entry.choices(results).items():
            offered = controls.setdefault(control, [])
            offered += [option for option in options if option not in offered]
        views = [(SEPARATOR.join(chosen), draw) for chosen, draw in entry.views(results)]
        if not views:
            entry.draw(results)  # raises the reason
        for key, draw in views:
            with suppress(StatetraceError):  # no such view: pair 4 of a split with three
                state.charts[key] = draw()
        if not state.charts:
            views[0][1]()  # raises the reason
    except StatetraceError as reason:  # measured, but it cannot be drawn: no command would help
        return FigureState(missing=_sentence(str(reason)))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        source = f"{entry.lens} results are" if entry.lens else "log is"
        message = f"The {source} not as expected ({type(error).__name__})."
        command = results.missing(entry.lens)[1] if entry.lens else ""
        return FigureState(missing=message, command=command)
    for title, make in entry.tables.items():
        with suppress(StatetraceError, KeyError, IndexError, TypeError):
            head, rows = make(results)
            state.tables += [_table(title, head, rows)] if rows else []
    return state


def _table(title: str, head: list[str], rows: list[list[Any]]) -> dict[str, Any]:
    short = [
        [f"{cell:.3g}" if isinstance(cell, float) else "" if cell is None else cell for cell in row]
        for row in rows
    ]
    return {"title": title, "head": head, "rows": short}


def _share_ranges(columns: list[FigureColumn]) -> None:
    """Give the same view the same axis ranges and colour scale in all runs and checkpoints, so that
    they can be compared."""
    views: dict[tuple[str, int], list[FigureState]] = {}
    for column in columns:
        for state in column.states:
            for key, chart in state.charts.items():
                for number in range(len(chart.panels)):
                    views.setdefault((key, number), []).append(state)
    for (key, number), states in views.items():
        panels = [state.charts[key].panels[number] for state in states]
        if len(panels) < 2 or any(panel.z is not None for panel in panels):
            continue
        x = _union(panel.extent("x") for panel in panels)
        y = _union(panel.extent("y") for panel in panels)
        highest = max((p.heat.high for p in panels if p.heat is not None), default=None)
        same_ticks = len({panel.ticks for panel in panels}) == 1
        for state, panel in zip(states, panels, strict=True):
            marks = tuple(
                replace(m, high=highest) if isinstance(m, Heat) and highest is not None else m
                for m in panel.marks
            )
            x_range = x if same_ticks else panel.x_range
            shared = replace(panel, marks=marks, y_range=y, x_range=x_range)
            chart = state.charts[key]
            panels_after = (*chart.panels[:number], shared, *chart.panels[number + 1 :])
            state.charts[key] = replace(chart, panels=panels_after)


def _union(ranges: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [limits for limits in ranges if limits is not None]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)
