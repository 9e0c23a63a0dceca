"""The figures of a run or study as files for a paper: vector, embedded fonts, and a CSV beside
each.

Cost: about half a second per file. Caveat: only the views that the paper shows are drawn (see
`Entry.on_paper`); any other from Python: `patching(newest(run), ...).save(file)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from statetrace.config.checks import one_of
from statetrace.errors import StatetraceError, by_reason
from statetrace.reports.figures.catalogue import STUDY, Entry, all_figures, predictions
from statetrace.reports.figures.matplotlib_renderer import FORMATS
from statetrace.reports.run_results import RunResults, newest

PREDICTED = "predicted"


def write_figures(
    run: Path, folder: Path, kind: str = "pdf", only: Sequence[str] | None = None
) -> tuple[list[Path], list[str]]:
    """Draw into `folder`; returns the files, and a sentence per reason why some are missing."""
    one_of("format", kind.lower(), FORMATS)
    source: RunResults | Path = run if (run / "study.json").is_file() else newest(run)
    entries = STUDY if isinstance(source, Path) else all_figures([source])
    papers = {entry.name: entry.papers for entry in entries}
    if isinstance(source, RunResults):
        papers[PREDICTED] = predictions
    for name in only or ():
        one_of("figure", name, papers)
    written: list[Path] = []
    missing: dict[str, str] = {}
    for name in _applicable(entries, source) if only is None else only:
        try:
            for file_name, chart in papers[name](source):
                path = folder / f"{file_name}.{kind.lower()}"
                path.parent.mkdir(parents=True, exist_ok=True)
                chart.save(path)
                chart.write_csv(path.with_suffix(".csv"))
                written.append(path)
        except StatetraceError as reason:
            missing[name] = str(reason)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            missing[name] = f"the results are not as expected ({type(error).__name__})"
    sentences = by_reason(missing)
    if only is None and isinstance(source, RunResults):
        named = "\n".join(sentences)
        sentences += [sentence for sentence in source.trouble if sentence not in named]
    return written, sentences


def _applicable(entries: Iterable[Entry], source: RunResults | Path) -> list[str]:
    """The figures that a run or study can have. Without any lens result these are those of the log:
    predictions alone could be mistaken for results."""
    applicable = [entry for entry in entries if entry.applies(source)]
    if isinstance(source, RunResults) and any(e.lens and source.lens(e.lens) for e in applicable):
        return [*(entry.name for entry in applicable), PREDICTED]
    return [entry.name for entry in applicable if not entry.lens]
