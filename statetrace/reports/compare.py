"""Measurements beside the predictions of each algorithm, as in the paper's Figure 1.

Cost: a few tenths of a second per group and length. Caveat: depths differ, so compare shapes, not
layer numbers. The distances of the verdict correct for depth; a figure cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.reports.figures import predicted
from statetrace.reports.figures.chart import Chart, Line
from statetrace.reports.figures.depth import by_split
from statetrace.reports.figures.patching import patching
from statetrace.reports.figures.probing import probes
from statetrace.reports.page_data import FigureColumn, FigureState, PageFigure, missing_state
from statetrace.reports.run_results import RunResults


@dataclass(frozen=True)
class Comparison:
    """A measurement that algorithms predict. `measure` and `predict` take a choice of pairs where
    `splits` is true."""

    name: str
    lens: str
    splits: bool
    measure: Callable[..., Chart]
    predict: Callable[..., Chart | None]

    @property
    def options(self) -> list[str]:
        return list(predicted.SPLITS) if self.splits else [""]

    def measured(self, results: RunResults) -> FigureState:
        charts = {}
        for option in self.options:
            try:
                chart = self.measure(results, *[option] * self.splits)
            except StatetraceError:
                continue
            panel = replace(chart.panels[0], title="", tall=0.8)
            charts[option] = replace(chart, panels=(panel,))
        return FigureState(charts) if charts else missing_state(results, self.lens)

    def predicted(self, results: RunResults, algorithm: str) -> FigureState:
        charts = {
            option: self.predict(results, algorithm, *[option] * self.splits)
            for option in self.options
        }
        return FigureState({option: chart for option, chart in charts.items() if chart})


def comparison(runs: Sequence[Sequence[RunResults]], names: Sequence[str]) -> list[PageFigure]:
    """Patching, probes and layers needed, measured and predicted."""
    tasks: dict[tuple[Any, ...], RunResults] = {}
    for checkpoints in runs:
        last = checkpoints[-1]
        lengths = [last.length_of(lens) for lens in ("patching", "probing", "depth")]
        tasks.setdefault((last.group.name, last.group.table.tobytes(), *lengths), last)
    figures: list[PageFigure] = []
    for kind in _COMPARISONS:
        columns = [
            FigureColumn(name, number, [kind.measured(results) for results in checkpoints])
            for number, (checkpoints, name) in enumerate(zip(runs, names, strict=True))
        ]
        for results in tasks.values():
            task = f" ({results.group.name}, {results.length_of('patching')})"
            for algorithm in predicted.Predicted.of(results).names():
                head = algorithm + (task if len(tasks) > 1 else "")
                columns.append(FigureColumn(head, None, [kind.predicted(results, algorithm)]))
        splits = [s for s in kind.options if s and any(s in c.states[0].charts for c in columns)]
        controls = {"pairs": splits} if splits else {}
        figures.append(PageFigure(kind.name, controls, columns, linked=False, small=True))
    return figures


def _probes(results: RunResults) -> Chart:
    chart = probes(results)
    panel = chart.panels[0]
    kept = tuple(m for m in panel.marks if not (isinstance(m, Line) and m.dash != "solid"))
    return replace(chart, panels=(replace(panel, marks=kept),))


def _depth(results: RunResults) -> Chart:
    summary = results.need("depth").summary
    panel = by_split(summary["lengths"], summary["layers_needed"], tall=0.8)
    return Chart("depth", "Layers needed", (panel,))


def _predicted_depth(results: RunResults, algorithm: str) -> Chart | None:
    depth = results.lens("depth")
    lengths = depth.summary["lengths"] if depth else [2, 3, 4, 6, 8, 12, 16, 24, 32]
    longest = min(results.length_of("depth"), 64)
    short = tuple(int(n) for n in lengths if n <= longest) or (2, 4)
    return predicted.depth(results, algorithm, short)


_COMPARISONS = (
    Comparison(
        "compare-patching",
        "patching",
        True,
        lambda run, pairs: patching(run, pairs=pairs),
        predicted.patching,
    ),
    Comparison("compare-probes", "probing", False, _probes, predicted.probes),
    Comparison("compare-depth", "depth", False, _depth, _predicted_depth),
)
