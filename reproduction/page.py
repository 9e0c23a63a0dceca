"""REPRODUCTION.md and claims.csv: pure functions of the answers."""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from reproduction.claim import (
    ABSENT,
    AGREES,
    DIFFERS,
    FAIL,
    OPEN,
    PASS,
    SMALL,
    UNTESTED,
    Answer,
    Check,
    Outcome,
    about_subject,
    small_size,
)  # fmt: skip
from reproduction.figures import FOLDER, charts
from reproduction.model_selection import Selection
from reproduction.rules import supports
from reproduction.statistics import Number
from statetrace.errors import StatetraceError

HERE = Path(__file__).parent
MOST_ROWS = 5
MARKS = {
    AGREES: "✓&nbsp;agrees", DIFFERS: "✗&nbsp;differs", SMALL: "○&nbsp;small models only",
    UNTESTED: "−&nbsp;untested",
}  # fmt: skip
SMALL_SAY = {"differ": (FAIL, "differ"), "agree": (PASS, "agree"), "inconclusive": (OPEN, "open")}


def page(answers: list[Answer], selection: Selection) -> str:
    words = tomllib.loads((HERE / "sections.toml").read_text())
    sections = words["section"]
    check_sections(answers, sections)
    anchors = {section["id"]: slug(section["title"]) for section in sections}
    drawn = charts(selection)
    summary = _filled(words["summary"], answers)
    guide = summary.pop("guide")
    lines = ["# Does the paper reproduce?", "", *summary.values(), "",
             *_claims(answers, anchors), guide]  # fmt: skip
    for section in sections:
        lines += _section(section, [a for a in answers if a.claim.section == section["id"]], drawn)
    return "\n".join([*lines, *_settings()]).rstrip() + "\n"


def check_sections(answers: list[Answer], sections: list[dict[str, Any]]) -> None:
    known = {section["id"] for section in sections}
    for answer in answers:
        if answer.claim.section not in known:
            raise StatetraceError(f"claim {answer.claim.id}: no section '{answer.claim.section}'")


def slug(title: str) -> str:
    """A heading's anchor, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _filled(templates: dict[str, str], answers: list[Answer]) -> dict[str, str]:
    """The text around the table of claims, with its numbers."""
    small = [f"small models {answer.small}" for answer in answers if answer.status == SMALL]
    counts = Counter([*(answer.status for answer in answers), *small])
    before = [a.claim.id for a in answers if a.outcomes and a.status != UNTESTED and not a.after]
    values = defaultdict(int, counts) | {
        "all": len(answers), "steps": _steps(answers), "before": ", ".join(map(str, before)),
    }  # fmt: skip
    return {name: template.format_map(values) for name, template in templates.items()}


def _steps(answers: list[Answer]) -> str:
    steps = sorted({
        about["step"]
        for answer in answers for outcome in answer.outcomes for subject in outcome.subjects
        if (about := about_subject(subject))["size"] == "paper" and about["step"]
    })  # fmt: skip
    return f"{steps[0]:,} to {steps[-1]:,}" if steps else "no"


def _claims(answers: list[Answer], anchors: dict[str, str]) -> list[str]:
    """A line for each claim; the first of a band begins with the band's name."""
    lines = ["| | claim | status | models that pass; width |", "|--:|---|---|---|"]
    band = ""
    for answer in answers:
        claim = answer.claim
        name = f"**{claim.band}.** " if claim.band != band else ""
        link = f"[{claim.id}](#{anchors[claim.section]})"
        band, status = claim.band, MARKS[answer.status]
        lines.append(f"| {link} | {name}{claim.says} | {status} | {evidence(answer)} |")
    return [*lines, ""]


def evidence(answer: Answer) -> str:
    """How many models of which size decide, or why none does."""
    claim = answer.claim
    if not answer.outcomes or answer.status == UNTESTED:
        return claim.finding or claim.why
    large, small = (
        [o for o in answer.outcomes if o.test.small == kind and o.numbers and not o.test.aside]
        for kind in (False, True)
    )
    if answer.status != SMALL:
        against = {AGREES: "differ", DIFFERS: "agree"}[answer.status] == answer.small
        return _tally(large) + (f"; small models {answer.small}" if against else "; paper's size")
    decision, word = SMALL_SAY[answer.small]
    chosen = ([o for o in small if o.decision == decision] or small)[:1]
    return f"{word}: {_tally(chosen)}; {small_size(chosen[0])}"


def _tally(outcomes: list[Outcome]) -> str:
    """ "4 of 4" models over tests of different models, by the weakest test of each; "n = 24" for a
    number that is not a share."""
    groups: dict[str, list[tuple[int, int]]] = {}
    for outcome in outcomes:
        number = outcome.numbers[0][1]
        if outcome.numbers[0][0]:
            passed, n = outcome.passed, len(outcome.numbers)
        elif _is_count(number):
            passed, n = round(number.value * number.n), number.n
        else:
            continue
        groups.setdefault(json.dumps(outcome.test.models, sort_keys=True), []).append((passed, n))
    if not groups:
        return f"n = {outcomes[0].numbers[0][1].n}"
    weakest = [min(tests, key=lambda test: test[0] / test[1]) for tests in groups.values()]
    return f"{sum(p for p, _ in weakest)} of {sum(n for _, n in weakest)}"


def _is_count(number: Number) -> bool:
    return number.detail == f"{round(number.value * number.n)} of {number.n}"


def _section(section: dict[str, Any], answers: list[Answer], drawn: dict[str, Any]) -> list[str]:
    lines = [f"## {section['title']}", ""]
    for name in section.get("pictures", ()):
        if name in drawn:
            lines += [f"![{drawn[name].title}]({FOLDER}/{name}.png)", ""]
    rows = section_rows(answers)
    if len(rows) > MOST_ROWS:
        raise StatetraceError(
            f"section '{section['id']}' has {len(rows)} rows, at most {MOST_ROWS}"
        )
    columns = [
        ("paper's size", [_cell(large) for _, _, large, _ in rows]),
        ("small models", [_cell(small) for *_, small in rows]),
    ]
    columns = [(name, cells) for name, cells in columns if any(cells)]
    if rows:
        lines.append(f"| | measured | paper | {' | '.join(name for name, _ in columns)} |")
        lines.append(f"|--:|---|---|{'---|' * len(columns)}")
    for number, (claim, test, *_) in enumerate(rows):
        after = "&nbsp;†" if test.fixed == "after" else ""
        values = (cells[number] for _, cells in columns)
        lines.append(f"| {claim} | {test.label}{after} | {test.paper} | {' | '.join(values)} |")
    lines += [""] if rows else []
    return [*lines, section["why"].strip(), ""]


def section_rows(
    answers: list[Answer],
) -> list[tuple[int, Check, Outcome | None, Outcome | None]]:
    """Rows of a section: a claim's number, a test, and its outcomes at the paper's size and in
    small models, which share a label."""
    rows: dict[tuple[int, str], list[Outcome]] = {}
    for answer in answers:
        for outcome in answer.outcomes:
            if outcome.test.shown and (outcome.numbers or outcome.test.needed):
                rows.setdefault((answer.claim.id, outcome.test.label), []).append(outcome)
    result = []
    for (number, _), outcomes in rows.items():
        pair = [
            next((o for o in outcomes if o.test.small == small), None) for small in (False, True)
        ]
        result.append((number, outcomes[0].test, pair[0], pair[1]))
    return result


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.decision == ABSENT:
        return "no such model"
    numbers = [number for _, number in outcome.numbers]
    if len(numbers) > 1:
        unit = f" {numbers[0].unit}" if numbers[0].unit not in ("", "share", "%", "°") else ""
        values = [number.format(number.value) for number in numbers]
        if len(values) > 3:
            ends = sorted(numbers, key=lambda number: number.value)
            values = [" to ".join(end.format(end.value) for end in (ends[0], ends[-1]))]
        return f"{outcome.passed} of {len(numbers)}: {', '.join(values)}{unit}"
    number = numbers[0]
    if number.of != "models":
        return number.text()
    if _is_count(number):
        low, high = (number.format(end) for end in (number.low or 0.0, number.high or 0.0))
        return f"{number.detail} ({low} to {high})"
    return f"{number.text()}; {number.detail or f'n = {number.n}'}"


def _settings() -> list[str]:
    rows = tomllib.loads((HERE / "settings.toml").read_text())["rows"]
    lines = ["## Settings", "", "| | paper | released code | ours |", "|---|---|---|---|"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


COLUMNS = ("id", "band", "claim", "where", "status", "small_models", "test", "measure", "arguments",
           "models", "rule", "bound", "fixed", "scale", "decision", "model", "value", "low", "high",
           "n", "of", "unit", "supports", "detail")  # fmt: skip


def claims_csv(answers: list[Answer]) -> str:
    """One row per number, and one for a claim without any."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        claim = answer.claim
        base = {"id": claim.id, "band": claim.band, "claim": claim.says, "where": claim.where,
                "status": answer.status, "small_models": answer.small}  # fmt: skip
        if not answer.outcomes:
            writer.writerow(base | {"detail": claim.finding or claim.why})
        for outcome in answer.outcomes:
            test = outcome.test
            about = base | {
                "test": test.label, "measure": test.measure, "arguments": json.dumps(test.args),
                "models": json.dumps(test.models), "rule": json.dumps(test.rule),
                "bound": test.bound, "fixed": test.fixed,
                "scale": "small" if test.small else "paper", "decision": outcome.decision,
            }  # fmt: skip
            if not outcome.numbers:
                writer.writerow(about)
            for name, number in outcome.numbers:
                values = {key: getattr(number, key) for key in ("n", "of", "unit", "detail")}
                ends = {key: _rounded(getattr(number, key)) for key in ("value", "low", "high")}
                decision = {True: "yes", False: "no", None: "open"}[supports(test.rule, number)]
                writer.writerow(about | values | ends | {"model": name, "supports": decision})
    return stream.getvalue()


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
