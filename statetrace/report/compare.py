"""The models beside what each algorithm would show, for the eye to compare: the paper's Figure 1
with the measurement in front.

Cost: some tenths of a second per group and length. Caveat: depths differ, so shapes are to be
compared and not layer numbers; the verdict's distances allow for that, a picture cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from statetrace.errors import StatetraceError
from statetrace.report.figures import predicted
from statetrace.report.figures.chart import Chart, Line
from statetrace.report.figures.depth import by_split
from statetrace.report.figures.patching import patching
from statetrace.report.figures.probing import probes
from statetrace.report.page_data import Charts, FigureColumn, FigureState, PageFigure, TracePool
from statetrace.report.run_results import RunResults


def comparison(
    runs: Sequence[Sequence[RunResults]], names: Sequence[str], pool: TracePool
) -> list[PageFigure]:
    """The models beside what each algorithm predicts: patching, probes, layers needed."""
    about = (
        "First what was measured, then what each algorithm would show at the same group and "
        "length, with as many layers as it needs. Compare shapes, not layer numbers: a model may "
        "spread an algorithm over more layers, or have layers in which nothing happens."
    )
    tasks: dict[tuple[Any, ...], RunResults] = {}
    for each in runs:
        seen = [each[-1].seen(lens) for lens in ("patching", "probing", "depth")]
        tasks.setdefault((*each[-1].task.values(), *seen), each[-1])
    splits = list(predicted.SPLITS)
    kinds: tuple[tuple[str, str, dict[str, list[str]], Any, Any], ...] = (
        (
            "compare-patching",
            "Prefix patching, measured and predicted",
            {"pairs": splits},
            _maps,
            predicted.patching,
        ),
        ("compare-probes", "Probes, measured and predicted", {}, _curves, predicted.probes),
        ("compare-depth", "Layers needed, measured and predicted", {}, _depths, _predicted_depth),
    )
    plates: list[PageFigure] = []
    for name, title, controls, measured, predict in kinds:
        cells = []
        for number, (each, called) in enumerate(zip(runs, names, strict=True)):
            shots = [_measured(look, controls, measured) for look in each]
            cells.append(FigureColumn(called, number, shots))
        for look in tasks.values():
            where = f" ({look.group.name}, {look.seen('patching')})" if len(tasks) > 1 else ""
            for algorithm in predicted.Predicted.of(look).names():
                charts: Charts = {}
                for option in controls.get("pairs", [""]):
                    found = predict(look, algorithm, option) if option else predict(look, algorithm)
                    if found is not None:
                        charts[option] = found
                cells.append(FigureColumn(algorithm + where, None, [FigureState(charts)]))
        offered = [
            s for s in controls.get("pairs", []) if any(s in c.shots[0].charts for c in cells)
        ]
        controls = {"pairs": offered} if offered else {}
        plates.append(
            PageFigure(name, title, about if not plates else "", controls, cells, pool, False, True)
        )
    return plates


def _measured(look: RunResults, controls: dict[str, list[str]], draw: Any) -> FigureState:
    shot = FigureState()
    for option in controls.get("pairs", [""]):
        try:
            chart = draw(look, option) if option else draw(look)
        except StatetraceError:
            continue
        panel = replace(chart.panels[0], title="", tall=0.8)
        shot.charts[option] = replace(chart, panels=(panel,))
    if not shot.charts:
        lens = {_maps: "patching", _curves: "probing", _depths: "depth"}[draw]
        return FigureState(missing=f"No {lens} results yet.", command=look.command(lens))
    return shot


def _maps(look: RunResults, pairs: str) -> Chart:
    return patching(look, "", pairs)


def _curves(look: RunResults) -> Chart:
    chart = probes(look)
    panel = chart.panels[0]
    plain = tuple(m for m in panel.marks if not (isinstance(m, Line) and m.colour == "grey"))
    return replace(chart, panels=(replace(panel, marks=plain),))


def _depths(look: RunResults) -> Chart:
    summary = look.need("depth").summary
    panel = by_split(summary["lengths"], summary["layers_needed"], tall=0.8)
    return Chart("depth", "Layers needed", (panel,))


def _predicted_depth(look: RunResults, algorithm: str) -> Chart | None:
    found = look.lens("depth")
    lengths = found.summary["lengths"] if found else [2, 3, 4, 6, 8, 12, 16, 24, 32]
    short = tuple(int(n) for n in lengths if n <= min(look.seen("depth"), 64)) or (2, 4)
    return predicted.depth(look, algorithm, short)
