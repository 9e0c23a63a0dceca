"""The figures of a run or study as files for a paper: vector, embedded fonts, and a CSV beside
each.

Cost: about half a second per file. Caveat: only the views that the paper shows are drawn (see
`Entry.on_paper`); any other from Python: `patching(newest(run), ...).save(file)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from statetrace.errors import StatetraceError
from statetrace.reports.figures.catalogue import STUDY, Entry, all_figures, predictions
from statetrace.reports.figures.chart import Chart
from statetrace.reports.figures.matplotlib_renderer import FORMATS
from statetrace.reports.run_results import RunResults, newest

PREDICTED = "predicted"


def write_figures(
    run: Path, folder: Path, kind: str = "pdf", only: Sequence[str] | None = None
) -> tuple[list[Path], list[str]]:
    """Draw into `folder`; returns the files, and a sentence for each missing figure."""
    if kind.lower() not in FORMATS:
        raise StatetraceError(f"there is no format '{kind}'; use one of {', '.join(FORMATS)}")
    study = (run / "study.json").is_file()
    results = None if study else newest(run)
    names = [entry.name for entry in STUDY] if results is None else [*_entries(results), PREDICTED]
    for name in only or ():
        if name not in names:
            raise StatetraceError(f"there is no figure '{name}'; use one of {', '.join(names)}")
    if only is None and results is not None:
        names = _applicable(results)
    elif only is None:
        names = [entry.name for entry in STUDY if entry.applies(run)]
    written: list[Path] = []
    missing: list[str] = []
    for name in only or names:
        try:
            drawn = _study_charts(run, name) if results is None else _charts(results, name)
            for file_name, chart in drawn:
                path = folder / f"{file_name}.{kind.lower()}"
                path.parent.mkdir(parents=True, exist_ok=True)
                chart.save(path)
                chart.write_csv(path.with_suffix(".csv"))
                written.append(path)
        except StatetraceError as reason:
            missing.append(f"{name}: {reason}")
    if only is None and results is not None:
        named = "\n".join(missing)
        missing += [sentence for sentence in results.trouble if sentence not in named]
    return written, missing


def _entries(results: RunResults) -> dict[str, Entry]:
    return {entry.name: entry for entry in all_figures([results])}


def _applicable(results: RunResults) -> list[str]:
    """The figures that the run can have. Without any lens result these are those of the log:
    predictions alone could be mistaken for results."""
    entries = [entry for entry in _entries(results).values() if entry.applies(results)]
    if any(entry.lens and results.lens(entry.lens) for entry in entries):
        return [*(entry.name for entry in entries), PREDICTED]
    return [entry.name for entry in entries if not entry.lens]


def _charts(results: RunResults, name: str) -> Iterator[tuple[str, Chart]]:
    return predictions(results) if name == PREDICTED else _entries(results)[name].papers(results)


def _study_charts(study: Path, name: str) -> Iterator[tuple[str, Chart]]:
    yield name, next(entry for entry in STUDY if entry.name == name).draw(study)
