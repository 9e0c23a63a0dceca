"""How a study looks on a terminal: the live table, its summary, a line per change elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import err, note, out
from statetrace.studies.survey import CellState, tally

MOST_ROWS = 40
WIDE = 1000
WHYS = 3
"""Lines on what went wrong that fit a screen beside the table."""

LETTERS = {"associative": "AA", "parity-associative": "PAA"}
ROOMY = 110
"""Columns from which on mechanisms are written out."""

STYLES = {"finished": "green", "failed": "bold red", "running": "cyan", "waiting": "dim"}
FIRST = ("failed", "running", "to be retried", "interrupted", "finished", "waiting")


def show(states: tuple[CellState, ...]) -> None:
    """The whole table on stdout; in a file or a pipe, as wide as it needs to be."""
    where = out if out.is_terminal else Console(width=WIDE, highlight=False)
    where.print(table(states, width=where.width))


def table(states: Sequence[CellState], most: int | None = None, width: int = WIDE) -> Group:
    """A row per cell, those that want attention first where there are too many for a screen; below
    them what went wrong. Where there is little width, mechanisms go by the paper's letters."""
    made = Table(title=None, pad_edge=False, box=None)
    for name in ("cell", "state", "step", "accuracy", "early", "verdict"):
        right = name in ("step", "accuracy")
        whole = name not in ("early", "verdict")
        made.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=whole)
    shown = list(states)
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda one: FIRST.index(one.state))[:most]
    letters = LETTERS if width < ROOMY else {}
    for one in shown:
        made.add_row(*_row(one, letters))
    captions = [f"{short}: {name}" for name, short in letters.items()]
    if len(shown) < len(states):
        captions.append(f"{len(states) - len(shown):,} more cells not shown")
    made.caption = "; ".join(captions) or None
    wrong = [f"{one.cell.name}: {one.why}" for one in shown if one.why]
    if most is None:
        return Group(made, *map(Text, wrong))
    return Group(made, *(Text(why, no_wrap=True, overflow="ellipsis") for why in wrong[:WHYS]))


def _row(one: CellState, letters: Mapping[str, str]) -> list[Text]:
    outcome = one.outcome or {}
    final, early = outcome.get("final") or {}, one.early or {}
    step = "" if one.step is None else f"{one.step:,}"
    accuracy = f"{final['accuracy']:.1%}" if "accuracy" in final else ""
    verdict = str(final.get("mechanism", final.get("quick", "")))
    verdict = letters.get(verdict, verdict)
    if final.get("confidence") is not None:
        verdict += f" ({final['confidence']:.0%})"
    words = [
        one.cell.name,
        one.state,
        step + (f" of {one.steps:,}" if one.steps and step else ""),
        accuracy,
        letters.get(quick := str(early.get("quick", "")), quick),
        verdict,
    ]
    style = STYLES.get(one.state, "yellow")
    return [Text(word, style=style if number == 1 else "") for number, word in enumerate(words)]


def summary(states: tuple[CellState, ...]) -> Text:
    """Such as '3 of 12 cells have ended: 2 finished, 1 failed; 2 running, 7 waiting'."""
    counts = tally(states)
    over = [f"{n:,} {name}" for name, n in counts.items() if name in ("finished", "failed")]
    rest = [f"{n:,} {name}" for name, n in counts.items() if name not in ("finished", "failed")]
    ended = sum(one.ended for one in states)
    words = f"{ended:,} of {len(states):,} cells have ended"
    words += f": {', '.join(over)}" if over else ""
    return Text(words + (f"; {', '.join(rest)}" if rest else ""))


def plain(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    made = Table(title=title, pad_edge=False, box=None)
    for name in rows[0]:
        made.add_column(name)
    for row in rows:
        made.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    return made


class StudyProgress:
    """The table on a terminal, redrawn in place; a line per change where there is none."""

    def __init__(self, cells: int) -> None:
        self._live = RichLive(console=err, auto_refresh=False, transient=True)
        self._before: dict[str, str] = {}
        self._cells = cells

    def __enter__(self) -> StudyProgress:
        if err.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, states: tuple[CellState, ...]) -> None:
        if err.is_terminal:
            most = max(5, min(MOST_ROWS, err.height - 4 - WHYS))
            shown = Group(table(states, most, err.width), summary(states))
            self._live.update(shown, refresh=True)
            return
        for one in states:
            if self._before.get(one.cell.name, "waiting") != one.state:
                why = f" ({one.why})" if one.why else ""
                note(f"{one.cell.name}: {one.state}{why}")
        self._before = {one.cell.name: one.state for one in states}
