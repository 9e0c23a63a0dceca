"""The words of the page: verdicts with their evidence, contents, controls, notes.

Everything that comes from a file name, a recipe or a result passes `escape`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from statetrace.lenses.result import NAMES
from statetrace.report.headlines import headlines
from statetrace.report.page_data import PageFigure
from statetrace.report.run_results import RunResults

FEW = 4
"""Up to so many options are shown all at once; more go into a list."""


def names(paths: Sequence[Path]) -> list[str]:
    """Short names, longer where two would be the same."""
    short = [path.resolve().name or str(path) for path in paths]
    return [
        name if short.count(name) == 1 else str(path)
        for name, path in zip(short, paths, strict=True)
    ]


def verdict_card(look: RunResults, name: str) -> str:
    """A run's verdict, its probabilities and evidence, and what each lens saw."""
    said = [f'<article class="verdict"><h3>{escape(name)}</h3>']
    said.append(f'<p class="about">{escape(_about(look))}</p>')
    found = look.verdict
    if found is None:
        command = f"statetrace verdict {shlex.quote(str(look.run.path))}"
        said.append(
            f'<p class="missing">No verdict yet: <code>{escape(command)}</code> makes it.</p>'
        )
    else:
        said += _judged(found)
    brief = _brief(look)
    if brief:
        rows = "".join(
            f"<dt>{escape(lens)}</dt><dd>{escape(sentence)}</dd>"
            for lens, sentence in brief.items()
        )
        open_ = " open" if found is None else ""
        said.append(
            f"<details{open_}><summary>What each lens saw</summary><dl>{rows}</dl></details>"
        )
    said.append("</article>")
    return "\n".join(said)


def study_card(path: Path, name: str) -> str:
    """How a study stands, and which factors mattered."""
    from statetrace.report.figures.study_shares import study_rows
    from statetrace.studies.proportions import associations

    rows, factors = study_rows(path)
    ended = sum(row["state"] == "finished" for row in rows)
    said = [f'<article class="verdict"><h3>{escape(name)}</h3>']
    said.append(f'<p class="says">{escape(_most(rows))}</p>')
    said.append(f'<p class="about">{ended} of {len(rows)} runs have finished.</p>')
    found = associations(rows, factors)
    if found:
        lines = "".join(
            f'<tr><td>{escape(str(one["factor"]))}</td><td class="n">{one["cramers_v"]:.2f}</td>'
            f'<td class="n">{one["p"]:.3g}</td></tr>'
            for one in found
        )
        said.append(
            "<table><caption>Which factors decide what is learned</caption><thead><tr>"
            '<th scope="col">factor</th><th scope="col" class="n">Cramér\'s V</th>'
            f'<th scope="col" class="n">p</th></tr></thead><tbody>{lines}</tbody></table>'
        )
    else:
        said.append('<p class="about">Too few runs to say which factors decide.</p>')
    return "\n".join([*said, "</article>"])


def _most(rows: Sequence[dict[str, Any]]) -> str:
    """What the runs of a study learned, the most frequent first."""
    judged = [str(row["verdict"]) for row in rows if row["verdict"]]
    if not judged:
        return "No run has a verdict yet."
    told = [f"{name} {n} of {len(judged)}" for name, n in Counter(judged).most_common()]
    return f"Verdicts: {', '.join(told)}."


def _about(look: RunResults) -> str:
    step = "" if look.step is None else f", after {look.step:,} steps"
    return look.about + step


def _judged(found: dict[str, Any]) -> list[str]:
    sentence = str(found.get("says") or found["mechanism"])
    sentence = sentence[:1].upper() + sentence[1:].rstrip(".") + "."
    said = [f'<p class="says">{escape(sentence)}</p>']
    sure = found.get("confidence")
    if isinstance(sure, int | float):
        said.append(
            f'<p class="confidence"><span class="badge">{escape(str(found["mechanism"]))}</span> '
            f"confidence <strong>{sure:.0%}</strong></p>"
        )
    chances = found.get("probabilities") or {}
    if isinstance(chances, dict) and chances:
        bars = "".join(_bar(str(k), v) for k, v in chances.items() if isinstance(v, int | float))
        said.append(f'<ul class="bars" aria-label="Probability of each algorithm">{bars}</ul>')
    evidence = found.get("evidence") or {}
    if isinstance(evidence, dict) and evidence:
        said.append(_evidence(evidence, list(chances)))
    return said


def _bar(name: str, share: float) -> str:
    width = max(0.0, min(1.0, float(share)))
    return (
        f'<li><span class="name">{escape(name)}</span><span class="bar">'
        f'<span style="width:{100 * width:.1f}%"></span></span>'
        f'<span class="share">{width:.0%}</span></li>'
    )


def _evidence(evidence: dict[str, Any], algorithms: list[str]) -> str:
    """A row per lens: its sentence, and how much each algorithm lost against the best one."""
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
            f"<tr><td><strong>{escape(str(lens))}</strong><br>{escape(str(sentence))}</td>{cells}</tr>"
        )
    note = "Numbers: log-probability lost against the algorithm that fits this lens best."
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
    found = part.get("scores", {}) if isinstance(part, dict) else {}
    found = found if isinstance(found, dict) else {}
    return {str(k): float(v) for k, v in found.items() if isinstance(v, int | float)}


def _brief(look: RunResults) -> dict[str, str]:
    said = {}
    for name in NAMES:
        place = look.place(name)
        try:
            said.update({name: headlines(place[1], [name])[name]} if place else {})
        except Exception:  # a damaged result is named in the notes, and one may have nothing to say
            continue
    return said


def contents(entries: Sequence[tuple[str, str]]) -> str:
    links = (f'<li><a href="#{escape(name)}">{escape(title)}</a></li>' for name, title in entries)
    return "<ul>" + "".join(links) + "</ul>"


def slider(steps: list[int]) -> str:
    """The checkpoints; nothing where there is one."""
    if len(steps) < 2:
        return ""
    last = len(steps) - 1
    return (
        '<div class="checkpoints" role="group" aria-label="Checkpoint">'
        f'<label for="checkpoint">Checkpoint</label><input id="checkpoint" type="range" min="0" '
        f'max="{last}" value="{last}" step="1" aria-valuetext="step {steps[-1]}">'
        f'<output for="checkpoint" id="checkpoint-said">step {steps[-1]:,}</output></div>'
    )


def skeleton(plate: PageFigure) -> str:
    """A figure's frame; the pictures are put in by the page's script."""
    name = escape(plate.name)
    controls = "".join(
        _control(plate.name, i, label, options)
        for i, (label, options) in enumerate(plate.controls.items())
    )
    cells = "".join(
        f'<div class="cell{"" if cell.run is not None else " predicted"}" data-cell="{i}">'
        f"<h3>{escape(cell.head)}</h3>"
        '<div class="panels"></div><div class="tables"></div></div>'
        for i, cell in enumerate(plate.cells)
    )
    about = f'<p class="about">{escape(plate.about)}</p>' if plate.about else ""
    kind = " small" if plate.small else ""
    alone = " alone" if len(plate.cells) == 1 else ""
    return (
        f'<section class="figure{kind}{alone}" id="{name}" data-figure="{name}" '
        f'aria-labelledby="{name}-title"><div class="side"><h2 id="{name}-title">'
        f"{escape(plate.title)}</h2>{about}"
        f'<div class="controls">{controls}</div><div class="legend"></div>'
        '<div class="save"><span>Save as</span> '
        '<button type="button" data-save="png">PNG</button> '
        '<button type="button" data-save="svg">SVG</button> '
        '<button type="button" data-save="csv">CSV</button></div></div>'
        f'<div class="cells">{cells}</div></section>'
    )


def _control(figure: str, number: int, label: str, options: list[str]) -> str:
    if len(options) < 2:
        only = escape(options[0]) if options else ""
        return f'<input type="hidden" data-control="{number}" value="{only}">'
    if len(options) > FEW:
        made = "".join(f'<option value="{escape(o)}">{escape(o)}</option>' for o in options)
        return (
            f'<label class="choice"><span>{escape(label)}</span>'
            f'<select data-control="{number}">{made}</select></label>'
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


def notes(runs: Sequence[Sequence[RunResults]], called: Sequence[str], thinned: str) -> str:
    """What a person should know beside the pictures, as the lenses said it."""
    items = []
    if thinned:
        items.append(f"Left out to keep this file small: {thinned}.")
    for each, name in zip(runs, called, strict=True):
        look = each[-1]
        said = [f"{lens}: {note}" for lens, r in look._read.items() if r for note in r.notes]
        said += [sentence for one in each for sentence in one.trouble]
        items += [f"{name}: {sentence}" for sentence in dict.fromkeys(said)]
    if not items:
        return ""
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<section id="notes"><h2>Notes</h2><ul>{listed}</ul></section>'
