"""Measurements beside the predictions of each algorithm, as in the paper's Figure 1.

Cost: a few tenths of a second per group and length. Caveat: depths differ, so compare shapes, not
layer numbers. The distances in the verdict's evidence correct for depth; a figure cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from statetrace.errors import StatetraceError
from statetrace.reports.figures import predicted
from statetrace.reports.figures.chart import Chart, Line
from statetrace.reports.figures.depth import by_split
from statetrace.reports.figures.patching import patching
from statetrace.reports.figures.probing import probes
from statetrace.reports.page_data import FigureColumn, FigureState, PageFigure, missing_state
from statetrace.reports.run_results import RunResults


class Comparison(NamedTuple):
    """A measurement that algorithms predict, for several choices of pairs or for one ("")."""

    lens: str
    options: Sequence[str]
    measure: Callable[[RunResults, str], Chart]
    predict: Callable[[RunResults, str, str], Chart | None]

    def measured(self, results: RunResults) -> FigureState:
        charts = {}
        for option in self.options:
            with suppress(StatetraceError):
                chart = self.measure(results, option)
                panel = replace(chart.panels[0], title="", tall=0.8)
                charts[option] = replace(chart, panels=(panel,))
        return FigureState(charts) if charts else missing_state(results, self.lens)

    def predicted(self, results: RunResults, algorithm: str) -> FigureState:
        charts = {option: self.predict(results, algorithm, option) for option in self.options}
        return FigureState({option: chart for option, chart in charts.items() if chart})


def comparison(runs: Sequence[Sequence[RunResults]], names: Sequence[str]) -> list[PageFigure]:
    """Patching, probes and layers needed, measured and predicted."""
    tasks: dict[tuple[Any, ...], RunResults] = {}
    for checkpoints in runs:
        last = checkpoints[-1]
        lengths = [last.length_of(lens) for lens in ("patching", "probing", "depth")]
        tasks.setdefault((last.group.name, last.group.table.tobytes(), *lengths), last)
    figures: list[PageFigure] = []
    for name, kind in _COMPARISONS.items():
        columns = [
            FigureColumn(head, number, [kind.measured(results) for results in checkpoints])
            for number, (checkpoints, head) in enumerate(zip(runs, names, strict=True))
        ]
        for results in tasks.values():
            task = f" ({results.group.name}, {results.length_of('patching')})"
            for algorithm in predicted.predicting(results):
                head = algorithm + (task if len(tasks) > 1 else "")
                columns.append(FigureColumn(head, None, [kind.predicted(results, algorithm)]))
        splits = [s for s in kind.options if s and any(s in c.states[0].charts for c in columns)]
        controls = {"pairs": splits} if splits else {}
        figures.append(PageFigure(name, controls, columns, linked=False, small=True))
    return figures


def _probes(results: RunResults, pairs: str) -> Chart:
    chart = probes(results)
    panel = chart.panels[0]
    kept = tuple(m for m in panel.marks if not (isinstance(m, Line) and m.dash != "solid"))
    return replace(chart, panels=(replace(panel, marks=kept),))


def _depth(results: RunResults, pairs: str) -> Chart:
    summary = results.need("depth").summary
    panel = by_split(summary["lengths"], summary["layers_needed"])
    return Chart("depth", "Layers needed", (panel,))


def _predicted_depth(results: RunResults, algorithm: str, pairs: str) -> Chart | None:
    depth = results.lens("depth")
    lengths = depth.summary["lengths"] if depth else [2, 3, 4, 6, 8, 12, 16, 24, 32]
    longest = min(results.length_of("depth"), 64)
    short = tuple(int(n) for n in lengths if n <= longest) or (2, 4)
    return predicted.depth(results, algorithm, short)


_COMPARISONS = {
    "compare-patching": Comparison(
        "patching",
        tuple(predicted.SPLITS),
        lambda run, pairs: patching(run, pairs=pairs),
        predicted.patching,
    ),
    "compare-probes": Comparison(
        "probing", ("",), _probes, lambda run, name, pairs: predicted.probes(run, name)
    ),
    "compare-depth": Comparison("depth", ("",), _depth, _predicted_depth),
}
