"""The HTML of the page: verdicts with their evidence, contents, controls, notes.

All text from file names, recipes and results is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from statetrace.glossary import define
from statetrace.reports.headlines import headline
from statetrace.reports.next_steps import after_study, next_steps
from statetrace.reports.page_data import PageFigure
from statetrace.reports.run_results import RunResults

FEW = 4
"""The most options shown as buttons; more become a drop-down list."""


class Definitions:
    """Definitions from the glossary, each where its term first stands on the page."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self.given = set(given)

    def first(self, term: str, tag: str = "span") -> str:
        """The definition as an element; "" if it was given before or there is none."""
        definition = "" if term in self.given else define(term)
        self.given.add(term)
        return f'<{tag} class="def">{escape(definition)}</{tag}>' if definition else ""

    def listed(self, terms: Sequence[str]) -> str:
        """A list of those terms that were not defined before."""
        new = [(term, self.first(term, "dd")) for term in terms]
        items = "".join(f"<dt>{escape(term)}</dt>{text}" for term, text in new if text)
        return f'<dl class="terms">{items}</dl>' if items else ""


def names(labels: Sequence[tuple[str, str]]) -> list[str]:
    """Of each (short name, long name) the short one, or the long one where two are the same."""
    short = [name for name, _ in labels]
    return [name if short.count(name) == 1 else long for name, long in labels]


def verdict_card(results: RunResults, name: str, definitions: Definitions) -> str:
    """A run's verdict, its probabilities and evidence, a headline per lens, and what to do next."""
    step = "" if results.step is None else f", after {results.step:,} steps"
    parts = [f'<article class="verdict"><h3>{escape(name)}</h3>']
    parts.append(f'<p class="about">{escape(results.about + step)}</p>')
    if results.verdict is None:
        command = escape(results.verdict_command)
        parts.append(f'<p class="missing">No verdict yet: <code>{command}</code> computes it.</p>')
    else:
        parts += _verdict(results.verdict, definitions)
    rows = "".join(
        f"<dt>{escape(lens)}</dt><dd>{escape(sentence)} {definitions.first(lens)}</dd>"
        for lens, sentence in _headlines(results).items()
    )
    if rows:
        open_ = " open" if results.verdict is None else ""
        parts.append(f"<details{open_}><summary>Results by lens</summary><dl>{rows}</dl></details>")
    return "\n".join([*parts, _next(next_steps(results)), "</article>"])


def _next(steps: Sequence[tuple[str, str]]) -> str:
    """A box with commands and what they are for."""
    items = "".join(
        f"<li>{escape(purpose)}: <code>{escape(command)}</code></li>" for command, purpose in steps
    )
    return f'<aside class="next"><h4>What next</h4><ul>{items}</ul></aside>' if items else ""


def study_card(path: Path, name: str, definitions: Definitions) -> str:
    """The progress of a study, its verdicts, the factors that matter, and what to do next."""
    from statetrace.reports.figures.study_shares import study_rows
    from statetrace.studies.proportions import associations

    rows, factors = study_rows(path)
    finished = sum(row["state"] == "finished" for row in rows)
    parts = [f'<article class="verdict"><h3>{escape(name)}</h3>']
    parts.append(f'<p class="says">{escape(_verdict_counts(rows))}</p>')
    parts.append(f'<p class="about">{finished} of {len(rows)} runs have finished.</p>')
    learned = dict.fromkeys(str(row["verdict"]) for row in rows if row["verdict"])
    parts.append(definitions.listed(list(learned)))
    lines = "".join(
        f'<tr><td>{escape(str(row["factor"]))}</td><td class="n">{row["cramers_v"]:.2f}</td>'
        f'<td class="n">{row["p"]:.3g}</td></tr>'
        for row in associations(rows, factors)
    )
    if lines:
        parts.append(
            "<table><caption>Association of each factor with the mechanism</caption><thead><tr>"
            '<th scope="col">factor</th><th scope="col" class="n">Cramér\'s V</th>'
            f'<th scope="col" class="n">p</th></tr></thead><tbody>{lines}</tbody></table>'
        )
    else:
        parts.append('<p class="about">Too few runs to test the factors.</p>')
    return "\n".join([*parts, _next(after_study(path, rows)), "</article>"])


def _verdict_counts(rows: Sequence[dict[str, Any]]) -> str:
    verdicts = [str(row["verdict"]) for row in rows if row["verdict"]]
    if not verdicts:
        return "No run has a verdict yet."
    counts = [f"{name} {n} of {len(verdicts)}" for name, n in Counter(verdicts).most_common()]
    return f"Verdicts: {', '.join(counts)}."


def _verdict(verdict: Mapping[str, Any], definitions: Definitions) -> list[str]:
    mechanism = str(verdict["mechanism"])
    sentence = str(verdict.get("says") or mechanism)
    sentence = sentence[:1].upper() + sentence[1:].rstrip(".") + "."
    parts = [f'<p class="says">{escape(sentence)}</p>']
    line = f'<span class="badge">{escape(mechanism)}</span>'
    if mechanism in ("mixed", "unlearned"):
        line += f" {definitions.first(mechanism)}"
    confidence = verdict.get("confidence")
    if isinstance(confidence, int | float) and mechanism != "unlearned":
        line += f" confidence <strong>{confidence:.0%}</strong> {definitions.first('confidence')}"
    parts.append(f'<p class="confidence">{line}</p>')
    chances = verdict.get("probabilities") or {}
    if isinstance(chances, dict) and chances:
        bars = "".join(
            _bar(str(name), share, definitions.first(str(name)))
            for name, share in chances.items()
            if isinstance(share, int | float)
        )
        parts.append(f'<ul class="bars" aria-label="Probability of each algorithm">{bars}</ul>')
    evidence = verdict.get("evidence") or {}
    if isinstance(evidence, dict) and evidence and mechanism != "unlearned":
        parts.append(_evidence(evidence, list(chances), definitions))
    return parts


def _bar(name: str, share: float, definition: str) -> str:
    width = max(0.0, min(1.0, float(share)))
    return (
        f'<li><span class="name">{escape(name)}</span><span class="bar">'
        f'<span style="width:{100 * width:.1f}%"></span></span>'
        f'<span class="share">{width:.0%}</span>{definition}</li>'
    )


def _evidence(evidence: dict[str, Any], algorithms: list[str], definitions: Definitions) -> str:
    """A row per lens: its sentence, and the score of each algorithm relative to the best one."""
    scored = [name for name in algorithms if any(name in _scores(e) for e in evidence.values())]
    head = "".join(f'<th scope="col" class="n">{escape(name)}</th>' for name in scored)
    rows = []
    for lens, part in evidence.items():
        scores = _scores(part)
        best = max(scores.values(), default=0.0)
        cells = ""
        for name in scored:
            lost = scores[name] - best if name in scores else None
            cells += f'<td class="n{" top" if lost == 0 else ""}">{_lost(lost)}</td>'
        sentence = part.get("says", "") if isinstance(part, dict) else str(part)
        rows.append(
            f"<tr><td><strong>{escape(str(lens))}</strong> {definitions.first(str(lens))}"
            f"<br>{escape(str(sentence))}</td>{cells}</tr>"
        )
    note = (
        "Numbers: the score of each algorithm, which a lens adds to its log-probability, relative "
        "to the algorithm that fits this lens best."
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Evidence">'
        f'<table class="evidence" style="--columns:{max(1, len(scored))}">'
        "<caption>Evidence</caption>"
        f'<thead><tr><th scope="col">lens</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        + (f'<p class="fine">{note}</p>' if scored else "")
    )


def _lost(score: float | None) -> str:
    if score is None or score == 0:
        return "" if score is None else "best"
    shown = f"{score:.1f}" if score < -0.05 else f"{score:.1g}"
    return shown.replace("-", "−")


def _scores(part: Any) -> dict[str, float]:
    scores = part.get("scores", {}) if isinstance(part, dict) else {}
    scores = scores if isinstance(scores, dict) else {}
    return {str(k): float(v) for k, v in scores.items() if isinstance(v, int | float)}


def _headlines(results: RunResults) -> dict[str, str]:
    sentences = {}
    for lens, result in results.all().items():
        try:
            sentences[lens] = headline(result)
        except (KeyError, IndexError, TypeError, ValueError):  # a result of another version
            continue
    return {lens: sentence for lens, sentence in sentences.items() if sentence}


def contents(entries: Sequence[tuple[str, str]]) -> str:
    links = (f'<li><a href="#{escape(name)}">{escape(title)}</a></li>' for name, title in entries)
    return "<ul>" + "".join(links) + "</ul>"


def slider(steps: list[int]) -> str:
    """The choice of a checkpoint; "" if there is only one."""
    if len(steps) < 2:
        return ""
    last = len(steps) - 1
    return (
        '<div class="checkpoints" role="group" aria-label="Checkpoint">'
        f'<label for="checkpoint">Checkpoint</label><input id="checkpoint" type="range" min="0" '
        f'max="{last}" value="{last}" step="1" aria-valuetext="step {steps[-1]}">'
        f'<output for="checkpoint" id="checkpoint-label">step {steps[-1]:,}</output></div>'
    )


def figure_frame(figure: PageFigure, definitions: Definitions) -> str:
    """A figure without its panels, which the script of the page draws."""
    name = escape(figure.name)
    controls = "".join(
        _control(figure.name, i, label, options)
        for i, (label, options) in enumerate(figure.controls.items())
    )
    columns = "".join(
        f'<div class="column{"" if column.run is not None else " predicted"}" data-column="{i}">'
        f"<h3>{escape(column.head)}</h3>"
        '<div class="panels"></div><div class="tables"></div></div>'
        for i, column in enumerate(figure.columns)
    )
    about = f'<p class="about">{escape(figure.about)}</p>' if figure.about else ""
    about += definitions.listed(figure.terms)
    kind = " small" if figure.small else ""
    alone = " alone" if len(figure.columns) == 1 else ""
    return (
        f'<section class="figure{kind}{alone}" id="{name}" data-figure="{name}" '
        f'aria-labelledby="{name}-title"><div class="side"><h2 id="{name}-title">'
        f"{escape(figure.title)}</h2>{about}"
        f'<div class="controls">{controls}</div><div class="legend"></div>'
        '<div class="save"><span>Save as</span> '
        '<button type="button" data-save="png">PNG</button> '
        '<button type="button" data-save="svg">SVG</button> '
        '<button type="button" data-save="csv">CSV</button></div></div>'
        f'<div class="columns">{columns}</div></section>'
    )


def _control(figure: str, number: int, label: str, options: list[str]) -> str:
    if len(options) < 2:
        only = escape(options[0]) if options else ""
        return f'<input type="hidden" data-control="{number}" value="{only}">'
    if len(options) > FEW:
        listed = "".join(f'<option value="{escape(o)}">{escape(o)}</option>' for o in options)
        return (
            f'<label class="choice"><span>{escape(label)}</span>'
            f'<select data-control="{number}">{listed}</select></label>'
        )
    buttons = ""
    for i, option in enumerate(options):
        checked = " checked" if i == 0 else ""
        buttons += (
            f'<label><input type="radio" name="{escape(figure)}-{number}" '
            f'value="{escape(option)}" data-control="{number}"{checked}>'
            f"<span>{escape(option)}</span></label>"
        )
    return f'<fieldset class="choice"><legend>{escape(label)}</legend>{buttons}</fieldset>'


def notes(runs: Sequence[Sequence[RunResults]], names: Sequence[str], omitted: str) -> str:
    """The caveats of the lenses, and what could not be read or was left out."""
    items = [f"Left out to keep this file small: {omitted}."] if omitted else []
    for checkpoints, name in zip(runs, names, strict=True):
        caveats = [
            f"{lens}: {note}"
            for lens, result in checkpoints[-1].all().items()
            for note in result.notes
        ]
        caveats += [sentence for results in checkpoints for sentence in results.trouble]
        items += [f"{name}: {sentence}" for sentence in dict.fromkeys(caveats)]
    if not items:
        return ""
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<section id="notes"><h2>Notes</h2><ul>{listed}</ul></section>'
