"""A study on a terminal: a live table and its summary; elsewhere a line per change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from statetrace.cli.console import duration, err, note, out
from statetrace.studies.survey import CellState, remaining_seconds, tally

MOST_ROWS = 40
WIDE = 1000
FAILURES = 3
"""Lines about failures below the live table."""

LETTERS = {"associative": "AA", "parity-associative": "PAA"}
ROOMY = 110
"""Terminal width from which mechanisms are written out."""

STYLES = {"finished": "green", "failed": "bold red", "running": "cyan", "waiting": "dim"}
FIRST = ("failed", "running", "to be retried", "interrupted", "finished", "waiting")


def show(states: tuple[CellState, ...]) -> None:
    """Print the whole table on stdout; in a file or a pipe, as wide as necessary."""
    console = out if out.is_terminal else Console(width=WIDE, highlight=False)
    console.print(table(states, width=console.width))


def table(states: Sequence[CellState], most: int | None = None, width: int = WIDE) -> Group:
    """A row per cell, and failures below. Of more than `most` cells, those that need attention are
    shown. Narrow tables abbreviate mechanisms as the paper does."""
    grid = Table(title=None, pad_edge=False, box=None)
    for name in ("cell", "state", "step", "accuracy", "early", "verdict"):
        right = name in ("step", "accuracy")
        whole = name not in ("early", "verdict")
        grid.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=whole)
    shown = list(states)
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda state: FIRST.index(state.state))[:most]
    letters = LETTERS if width < ROOMY else {}
    rows = [_row(state, letters) for state in shown]
    for row in rows:
        grid.add_row(*row)
    used = {str(entry).split(" (")[0] for row in rows for entry in row[-2:]}
    captions = [f"{short}: {name}" for name, short in letters.items() if short in used]
    if len(shown) < len(states):
        captions.append(f"{len(states) - len(shown):,} more cells not shown")
    grid.caption = "; ".join(captions) or None
    failures = [f"{state.cell.name}: {state.why}" for state in shown if state.why]
    if most is None:
        return Group(grid, *map(Text, failures))
    lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in failures[:FAILURES]]
    return Group(grid, *lines)


def _row(state: CellState, letters: Mapping[str, str]) -> list[Text]:
    outcome = state.outcome or {}
    final, early = outcome.get("final") or {}, state.early or {}
    step = "" if state.step is None else f"{state.step:,}"
    accuracy = f"{final['accuracy']:.1%}" if "accuracy" in final else ""
    verdict = str(final.get("mechanism", final.get("quick", "")))
    verdict = letters.get(verdict, verdict)
    if final.get("confidence") is not None and verdict != "undecided":
        verdict += f" ({final['confidence']:.0%})"
    entries = [
        state.cell.name,
        state.state,
        step + (f" of {state.steps:,}" if state.steps and step else ""),
        accuracy,
        letters.get(quick := str(early.get("quick", "")), quick),
        verdict,
    ]
    style = STYLES.get(state.state, "yellow")
    return [Text(entry, style=style if i == 1 else "") for i, entry in enumerate(entries)]


def summary(states: tuple[CellState, ...]) -> Text:
    """Such as '3 of 12 cells have ended: 3 finished; 2 running, 7 waiting; about 5 min left, until
    14:05'."""
    counts = tally(states)
    done = [f"{n:,} {name}" for name, n in counts.items() if name in ("finished", "failed")]
    rest = [f"{n:,} {name}" for name, n in counts.items() if name not in ("finished", "failed")]
    sentence = f"{sum(state.ended for state in states):,} of {len(states):,} cells have ended"
    sentence += f": {', '.join(done)}" if done else ""
    sentence += f"; {', '.join(rest)}" if rest else ""
    return Text(sentence + (f"; {end}" if (end := ending(states)) else ""))


def ending(states: Sequence[CellState]) -> str | None:
    """When the study will be done, such as 'about 12 min left, until 14:05'; None where it is, or
    where nothing has been measured."""
    seconds = remaining_seconds(states)
    if not seconds:
        return None
    running = any(state.state == "running" for state in states)
    if not running:
        return f"about {duration(seconds)} left on one worker"
    now = datetime.now().astimezone()
    end = now + timedelta(seconds=seconds)
    clock = f"{end:%H:%M}" if end.date() == now.date() else f"{end:%a %d %b %H:%M}"
    return f"about {duration(seconds)} left, until {clock}"


def as_json(states: Sequence[CellState]) -> str:
    """The same for scripts."""
    seconds = remaining_seconds(states)
    end = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    cells = [
        {
            "cell": state.cell.name,
            "state": state.state,
            "step": state.step,
            "steps": state.planned,
            "worker": state.worker,
            "why": state.why,
            **_final(state),
        }
        for state in states
    ]
    about = {
        "ended": sum(state.ended for state in states),
        "cells": cells,
        "counts": tally(tuple(states)),
        "remaining_seconds": None if seconds is None else round(seconds),
        "until": None if end is None else end.isoformat(timespec="seconds"),
    }
    return json.dumps(about, indent=2)


def _final(state: CellState) -> dict[str, Any]:
    final = (state.outcome or {}).get("final") or {}
    return {name: final.get(name) for name in ("accuracy", "mechanism", "confidence")}


def plain(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    grid = Table(title=title, pad_edge=False, box=None)
    for name in rows[0]:
        grid.add_column(name)
    for row in rows:
        grid.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    return grid


class StudyProgress:
    """On a terminal a table that is redrawn in place; elsewhere a line per change."""

    def __init__(self) -> None:
        self._live = RichLive(console=err, auto_refresh=False, transient=True)
        self._before: dict[str, str] = {}
        self._announced = False
        self.states: tuple[CellState, ...] = ()

    def __enter__(self) -> StudyProgress:
        if err.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, states: tuple[CellState, ...]) -> None:
        self.states = states
        if err.is_terminal:
            most = max(5, min(MOST_ROWS, err.height - 4 - FAILURES))
            view = Group(table(states, most, err.width), summary(states))
            self._live.update(view, refresh=True)
            return
        changed = [s for s in states if self._before.get(s.cell.name, "waiting") != s.state]
        for state in changed:
            why = f" ({state.why})" if state.why else ""
            note(f"{state.cell.name}: {state.state}{why}")
        end = ending(states)
        if end is not None and (changed or not self._announced):
            self._announced = True
            note(end)
        self._before = {state.cell.name: state.state for state in states}
