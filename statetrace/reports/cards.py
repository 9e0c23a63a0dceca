"""What the page says about each run and study; assets/page.html lays it out.

The template escapes all text, which comes from file names, recipes and results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from statetrace.glossary import define
from statetrace.mechanisms.sentences import EVEN
from statetrace.reports.headlines import headline
from statetrace.reports.next_steps import after_study, next_steps
from statetrace.reports.page_data import PageFigure
from statetrace.reports.run_results import RunResults


class Definitions:
    """Definitions from the glossary, each where its term first stands on the page."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def first(self, term: str) -> str:
        """The definition; "" if it was given before or there is none."""
        definition = "" if term in self._given else define(term)
        self._given.add(term)
        return definition

    def new(self, terms: Iterable[str]) -> list[tuple[str, str]]:
        """Those terms that were not defined before, with their definitions."""
        return [(term, text) for term in terms if (text := self.first(term))]


def unique_names(labels: Sequence[tuple[str, str]]) -> list[str]:
    """Of each (short name, long name) the short one, or the long one where two are the same."""
    short = [name for name, _ in labels]
    return [name if short.count(name) == 1 else long for name, long in labels]


def run_card(results: RunResults, name: str) -> dict[str, Any]:
    """A run's verdict, a headline per lens, and what to do next."""
    step = "" if results.step is None else f", after {results.step:,} steps"
    return {
        "name": name,
        "about": results.about + step,
        "verdict": results.verdict,
        "verdict_command": results.verdict_command,
        "headlines": _headlines(results),
        "next_steps": next_steps(results),
    }


def _headlines(results: RunResults) -> dict[str, str]:
    sentences = {}
    for lens, result in results.all().items():
        # a result of another version may lack something
        with suppress(KeyError, IndexError, TypeError, ValueError):
            sentences[lens] = headline(result)
    return {lens: sentence for lens, sentence in sentences.items() if sentence}


def study_card(path: Path, name: str) -> dict[str, Any]:
    """The progress of a study, its verdicts, the factors that matter, and what to do next."""
    from statetrace.reports.figures.study_shares import study_rows
    from statetrace.studies.proportions import associations

    rows, factors = study_rows(path)
    verdicts = Counter(str(row["verdict"]) for row in rows if row["verdict"])
    counts = [f"{learned} {n} of {verdicts.total()}" for learned, n in verdicts.most_common()]
    return {
        "name": name,
        "counts": f"Verdicts: {', '.join(counts)}." if counts else "No run has a verdict yet.",
        "finished": sum(row["state"] == "finished" for row in rows),
        "runs": len(rows),
        "learned": list(verdicts),
        "associations": associations(rows, factors),
        "next_steps": after_study(path, rows),
    }


def link_table(links: Any) -> tuple[list[str], list[list[str]]]:
    """The map of a verdict: the columns that have content, and a row per link. No rows for a
    verdict of an older version."""
    rows: list[dict[str, str]] = []
    with suppress(KeyError, TypeError, ValueError):
        rows = [_link_row(link) for link in links]
    head = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    return head, [[row[name] for name in head] for row in rows]


def _link_row(link: Mapping[str, Any]) -> dict[str, str]:
    (shortest, *_), (few, *_) = link["lengths"], link["layers_needed"]
    (*_, longest), (*_, many) = link["lengths"], link["layers_needed"]
    error = "" if link["growth_error"] is None else f" ± {link['growth_error']:.2f}"
    composed, own = link["composed"], link["own"]
    learned = {"before": "before the state", "together": "with the state"}
    return {
        "link": str(link["link"]),
        f"layers at length {shortest}": f"{few:.1f}",
        f"at {longest}": f"{many:.1f}",
        "growth per doubling": f"{link['growth']:+.2f}{error}",
        "computed by": _likely("composing", "counting", composed),
        "on its own": "" if own is None else _likely("yes", "no", own),
        "learned": learned.get(str(link.get("learned")), ""),
    }


def _likely(if_so: str, if_not: str, probability: float) -> str:
    so = probability >= EVEN
    return f"{if_so if so else if_not} ({probability if so else 1 - probability:.0%})"


def notes(runs: Sequence[Sequence[RunResults]], names: Sequence[str], omitted: str) -> list[str]:
    """The caveats of the lenses, and what could not be read or was left out."""
    items = [f"Left out to keep this file small: {omitted}."] if omitted else []
    for checkpoints, name in zip(runs, names, strict=True):
        last = checkpoints[-1].all()
        caveats = [f"{lens}: {note}" for lens, result in last.items() for note in result.notes]
        caveats += [sentence for results in checkpoints for sentence in results.trouble]
        items += [f"{name}: {sentence}" for sentence in dict.fromkeys(caveats)]
    return items


def unmeasured(figures: Iterable[PageFigure]) -> list[tuple[str, str, str]]:
    """(titles of figures without results, why, the command that computes them or "")."""
    titles: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        for column in figure.columns if figure.unmeasured else ():
            if reason := column.states[-1].missing:
                listed = titles.setdefault((reason, column.states[-1].command), [])
                listed.append(figure.text.title)
    return [(", ".join(listed), *reason) for reason, listed in titles.items()]
