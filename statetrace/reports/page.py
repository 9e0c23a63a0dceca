"""The report: one HTML file with the verdict and all figures, for one run or several side by side.

It opens from disk and needs no network: plotly.js and all numbers are embedded, compressed
(browsers unpack them with DecompressionStream, available since 2023).

Cost: a few seconds per run and checkpoint. Caveat: the page may not exceed LIMIT. If it would,
single pairs are left out first, then checkpoints, and the page says so.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from statetrace import __version__
from statetrace.errors import StatetraceError
from statetrace.files import write_text
from statetrace.mechanisms.verdict import accuracy_on_trained_models
from statetrace.reports.cards import (
    Definitions,
    link_table,
    notes,
    run_card,
    study_card,
    unique_names,
    unmeasured,
)
from statetrace.reports.compare import comparison
from statetrace.reports.page_data import PageFigure, TracePool, run_figures, study_figures
from statetrace.reports.run_results import RunResults, all_results
from statetrace.runs import Run

LIMIT = 8_000_000
"""Bytes, so that the report can be sent by mail."""

MOST_RUNS = 8
"""More columns cannot be compared by eye."""

FEW_OPTIONS = 4
"""The most options shown as buttons; more become a drop-down list."""

Checkpoints: TypeAlias = Sequence[RunResults]
"""One run at its analyzed checkpoints, the newest last."""


@dataclass(frozen=True)
class Thinning:
    """What is left out to keep the page small."""

    omitted: str = ""
    pairs: bool = True
    checkpoints: int = 40


LEVELS = (
    Thinning(),
    Thinning("single pairs of the patching", pairs=False),
    Thinning("single pairs, and all but 8 checkpoints", pairs=False, checkpoints=8),
    Thinning("single pairs, and all but 3 checkpoints", pairs=False, checkpoints=3),
    Thinning("single pairs, and all checkpoints but the newest", pairs=False, checkpoints=1),
)


def write_report(sources: Sequence[Path | RunResults], out: Path) -> int:
    """Write the page; returns its size in bytes."""
    text = report(sources)
    write_text(out, text)
    return len(text.encode())


def report(sources: Sequence[Path | RunResults]) -> str:
    """The page as text, for run folders, study folders and results in memory."""
    if not sources:
        raise StatetraceError("the report has nothing to show; name at least one run folder")
    studies = [source for source in sources if isinstance(source, Path) and is_study(source)]
    runs: list[Checkpoints] = [
        [source] if isinstance(source, RunResults) else all_results(Run.existing(source))
        for source in sources
        if source not in studies
    ]
    if len(runs) > MOST_RUNS:
        raise StatetraceError(f"{len(runs)} runs are too many for one page; use up to {MOST_RUNS}")
    study_names = unique_names([(path.resolve().name, str(path)) for path in studies])
    names = unique_names([(each[-1].name, each[-1].location) for each in runs])
    most = LEVELS[0].checkpoints
    cut = f"all but {most} checkpoints" if any(len(each) > most for each in runs) else ""
    runs = [[each[number] for number in _spread(len(each), most)] for each in runs]
    figures = study_figures(studies, study_names)
    if runs:
        of_runs = comparison(runs, names) + run_figures(runs, names)
        figures += sorted(of_runs, key=lambda figure: figure.name != "map")
    headings = [*study_names, *names]
    parts = {
        "title": " and ".join(headings) if len(headings) < 4 else f"{len(headings)} runs",
        "studies": [study_card(*each) for each in zip(studies, study_names, strict=True)],
        "runs": [run_card(each[-1], name) for each, name in zip(runs, names, strict=True)],
    }
    text = ""
    for level in LEVELS:
        parts["notes"] = notes(runs, names, level.omitted or cut)
        text = _page(runs, figures, level, parts)
        if len(text.encode()) <= LIMIT:
            return text
    raise StatetraceError(
        f"the page for {len(runs)} runs would take {len(text) / 1e6:.1f} MB, more than the limit "
        f"of {LIMIT / 1e6:.0f} MB; use fewer runs"
    )


def is_study(path: Path) -> bool:
    return (path / "study.json").is_file()


def _page(
    runs: list[Checkpoints], figures: list[PageFigure], level: Thinning, parts: dict[str, Any]
) -> str:
    kept = [_spread(len(checkpoints), level.checkpoints) for checkpoints in runs]
    figures = [figure.thinned(level.pairs, kept) for figure in figures]
    shown = [[each[n].step for n in numbers] for each, numbers in zip(runs, kept, strict=True)]
    steps = sorted({step for run in shown for step in run if step is not None})
    pool = TracePool()
    data = {
        "figures": [figure.as_json(pool) for figure in figures],
        "traces": pool.traces,
        "steps": steps if any(len(run) > 1 for run in shown) else [],
        "runs": shown,
    }
    return _template().render(
        parts,
        figures=[figure for figure in figures if not figure.unmeasured],
        unmeasured=unmeasured(figures),
        steps=data["steps"],
        data=_packed(json.dumps(data, separators=(",", ":"), allow_nan=False).encode()),
        definitions=Definitions(),
    )


@cache
def _template() -> Template:
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.globals |= {
        "asset": lambda name: Markup(_asset(name)),
        "accuracy_on_trained_models": accuracy_on_trained_models,
        "link_table": link_table,
        "few": FEW_OPTIONS,
        "plotly": _packed_plotly(),
        "version": __version__,
    }
    return page.from_string(_asset("page.html"))


def _spread(count: int, most: int) -> list[int]:
    """Up to `most` of that many checkpoints, evenly spread and with the newest."""
    if count <= most:
        return list(range(count))
    return [count - 1] if most == 1 else [round(i * (count - 1) / (most - 1)) for i in range(most)]


def _packed(data: bytes) -> str:
    """Compressed without a timestamp, so that equal runs give equal pages."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _asset(name: str) -> str:
    return files("statetrace.reports").joinpath("assets", name).read_text()


def _packed_plotly() -> str:
    """plotly.js from the plotly package."""
    try:
        return _packed(files("plotly").joinpath("package_data", "plotly.min.js").read_bytes())
    except (ModuleNotFoundError, FileNotFoundError):
        raise StatetraceError("the report needs the package 'plotly'; pip install plotly") from None
