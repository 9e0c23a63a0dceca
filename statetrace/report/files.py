"""The figures of a run as files for a paper: vector, embedded fonts, and a CSV beside each.

Cost: about half a second per file. Caveat: of figures with many choices only those the paper shows
are drawn (catalogue.py says which); from Python any can be: `patching(look, ...).save(file)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from statetrace.errors import StatetraceError
from statetrace.report.figures.catalogue import CATALOGUE, STUDY, Entry, predictions
from statetrace.report.figures.chart import Chart
from statetrace.report.figures.matplotlib_renderer import FORMATS
from statetrace.report.run_results import RunResults, newest

PREDICTED = "predicted"


def write_figures(
    run: Path, folder: Path, kind: str = "pdf", only: Sequence[str] | None = None
) -> tuple[list[Path], list[str]]:
    """Draw into `folder`; returns the files, and a sentence for each figure that is missing."""
    if kind.lower() not in FORMATS:
        raise StatetraceError(f"there is no format '{kind}': use one of {', '.join(FORMATS)}")
    study = (run / "study.json").is_file()
    names = [entry.name for entry in (STUDY if study else CATALOGUE)]
    names += [] if study else [PREDICTED]
    for name in only or ():
        if name not in names:
            raise StatetraceError(f"there is no figure '{name}'; there are {', '.join(names)}")
    if study:
        return _of_study(run, folder, kind, only)
    look = newest(run)
    chosen = list(only or names)
    if only is None:
        chosen = [name for name in names if name == PREDICTED or _entry(name).applies(look)]
    if only is None and not any(entry.lens and look.lens(entry.lens) for entry in CATALOGUE):
        # predictions alone would look like results; a log can be drawn
        chosen = [name for name in chosen if name != PREDICTED and not _entry(name).lens]
    made: list[Path] = []
    missing: list[str] = []
    for name in chosen:
        try:
            for called, chart in _charts(look, name):
                made.append(_written(chart, folder / f"{called}.{kind.lower()}"))
        except StatetraceError as reason:
            missing.append(f"{name}: {reason}")
    if only is None:
        missing += [s for s in look.trouble if not any(s in told for told in missing)]
    return made, missing


def _written(chart: Chart, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(path)
    chart.write_csv(path.with_suffix(".csv"))
    return path


def _of_study(
    study: Path, folder: Path, kind: str, only: Sequence[str] | None
) -> tuple[list[Path], list[str]]:
    made, missing = [], []
    for entry in STUDY:
        wanted = entry.name in only if only else entry.applies(study)
        if not wanted:
            continue
        try:
            made.append(_written(entry.draw(study), folder / f"{entry.name}.{kind.lower()}"))
        except StatetraceError as reason:
            missing.append(f"{entry.name}: {reason}")
    return made, missing


def _charts(look: RunResults, name: str) -> Iterator[tuple[str, Chart]]:
    if name == PREDICTED:
        yield from predictions(look)
        return
    yield from _entry(name).papers(look)


def _entry(name: str) -> Entry:
    return next(entry for entry in CATALOGUE if entry.name == name)
