"""The report: one HTML file with everything the paper draws, for one run or several side by side.

It opens from disk and asks nothing of the network: plotly.js and all numbers are inside, compressed
(browsers unpack them with DecompressionStream, which all have since 2023).

Cost: some seconds per run and checkpoint. Caveat: it must not pass LIMIT; where it would, single
pairs go first, then checkpoints, and the page says so.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from statetrace import __version__
from statetrace.errors import StatetraceError
from statetrace.report import compare
from statetrace.report import html as cards
from statetrace.report import page_data as plates
from statetrace.report.run_results import RunResults, all_results
from statetrace.runs import Run, write_text

LIMIT = 8_000_000
"""Bytes: the report goes by mail."""

MOST_RUNS = 8
"""Side by side, more cannot be compared by eye."""


@dataclass(frozen=True)
class Thinning:
    """What is left out so that the page stays small."""

    said: str = ""
    pairs: bool = True
    checkpoints: int = 40


LEVELS = (
    Thinning(),
    Thinning("single pairs of the patching", pairs=False),
    Thinning("single pairs, and all but 8 checkpoints", pairs=False, checkpoints=8),
    Thinning("single pairs, and all but 3 checkpoints", pairs=False, checkpoints=3),
    Thinning("single pairs, and all checkpoints but the newest", pairs=False, checkpoints=1),
)


def write_report(paths: Sequence[Path], out: Path) -> int:
    """Write the page; returns its size in bytes."""
    text = report(paths)
    write_text(out, text)
    return len(text.encode())


def report(paths: Sequence[Path]) -> str:
    """The page as text."""
    studies = [path for path in paths if is_study(path)]
    runs = [all_results(Run.existing(path)) for path in paths if path not in studies]
    if not paths:
        raise StatetraceError("no run folder was given; name at least one")
    if len(runs) > MOST_RUNS:
        raise StatetraceError(f"{len(runs)} runs are too many for one page: give up to {MOST_RUNS}")
    text = ""
    for level in LEVELS:
        text = _page(runs, studies, level)
        if len(text.encode()) <= LIMIT:
            return text
    raise StatetraceError(
        f"the page for {len(runs)} runs would be {len(text) / 1e6:.1f} MB and may be "
        f"{LIMIT / 1e6:.0f}: give fewer runs"
    )


def is_study(path: Path) -> bool:
    return (path / "study.json").is_file()


def _page(runs: list[list[RunResults]], studies: list[Path], level: Thinning) -> str:
    kept = [_spread(each, level.checkpoints) for each in runs]
    thinned = level.said if level.said else ""
    if not thinned and any(len(a) < len(b) for a, b in zip(kept, runs, strict=True)):
        thinned = f"all but {level.checkpoints} checkpoints"
    names = cards.names([each[-1].run.path for each in runs])
    pool = plates.TracePool()
    made = plates.studies(studies, cards.names(studies), pool)
    if runs:
        made += compare.comparison(kept, names, pool)
        made += plates.figures(kept, names, pool, level.pairs)
    steps = sorted({look.step for each in kept for look in each if look.step is not None})
    data = {
        "figures": [plate.as_json() for plate in made],
        "traces": pool.items,
        "steps": steps if any(len(each) > 1 for each in kept) else [],
        "runs": [[look.step for look in each] for each in kept],
    }
    called = [*cards.names(studies), *names]
    title = " and ".join(called) if len(called) < 4 else f"{len(called)} runs"
    parts = {
        "title": escape(f"statetrace: {title}"),
        "css": _asset("page.css"),
        "heading": escape(title),
        "several": "several" if len(called) > 1 else "single",
        "verdicts": "\n".join(
            [cards.study_card(path, name) for path, name in zip(studies, called, strict=False)]
            + [cards.verdict_card(each[-1], name) for each, name in zip(kept, names, strict=True)]
        ),
        "contents": cards.contents([(plate.name, plate.title) for plate in made]),
        "slider": cards.slider(data["steps"]),
        "figures": "\n".join(cards.skeleton(plate) for plate in made),
        "notes": cards.notes(kept, names, thinned),
        "version": escape(__version__),
        "plotly": _library(),
        "data": _packed(json.dumps(data, separators=(",", ":"), allow_nan=False).encode()),
        "js": _asset("page.js"),
    }
    text = _asset("page.html")
    for name in parts:
        if text.count("{{" + name + "}}") < 1:
            raise AssertionError(f"page.html has no place for {name}")
    # Split once, so that nothing inside a part can be taken for a place of its own.
    pieces = text.split("{{")
    return pieces[0] + "".join(
        parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:])
    )


def _spread(each: list[RunResults], most: int) -> list[RunResults]:
    """At most that many checkpoints, evenly spread, the newest always among them."""
    if len(each) <= most:
        return each
    if most == 1:
        return each[-1:]
    last = len(each) - 1
    return [each[round(i * last / (most - 1))] for i in range(most)]


def _packed(data: bytes) -> str:
    """Compressed, without a time in it, so that equal runs make equal pages."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _asset(name: str) -> str:
    return files("statetrace.report").joinpath("assets", name).read_text()


@cache
def _library() -> str:
    return _packed(plotly_js().encode())


def plotly_js() -> str:
    """plotly.js as the plotly package ships it."""
    try:
        return files("plotly").joinpath("package_data", "plotly.min.js").read_text()
    except (ModuleNotFoundError, FileNotFoundError):
        raise StatetraceError("the report needs the package 'plotly'; pip install plotly") from None
