"""Results go to stdout, progress and messages to stderr. A terminal wraps lines between words;
elsewhere a sentence stays on one line, so that it can be searched for."""

from __future__ import annotations

import io
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
WIDE = 10_000
"""Columns where nothing is wrapped."""

# `!statetrace ...` in a notebook has a terminal, but one that does not redraw lines
_in_notebook = "JPY_PARENT_PID" in os.environ
err = Console(
    stderr=True,
    highlight=False,
    soft_wrap=_in_notebook or not sys.stderr.isatty(),
    force_terminal=False if _in_notebook else None,
)


def complain(sentence: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), sentence))


def print_table(table: Table) -> None:
    """To the width of a terminal; elsewhere a line per row."""
    if out.is_terminal:
        out.print(table)
        return
    text = io.StringIO()
    Console(width=WIDE, highlight=False, file=text).print(table)
    for line in text.getvalue().splitlines():
        out.print(line.rstrip(), markup=False)


def note(sentence: str) -> None:
    err.print(Text(sentence, style="dim"))


def warn(sentence: str) -> None:
    """A result that a person should not overlook."""
    err.print(Text(sentence, style="yellow"))


def duration(seconds: float) -> str:
    """Such as 40 s, 12 min, 3.5 h or 4 days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"


def next_steps(*steps: Sequence[object] | str) -> None:
    """End a command with what to do next: words of statetrace commands, or sentences.

    `next_steps(["verdict", folder], ["report", folder])` prints two commands that can be copied,
    since a terminal wraps them without breaking the line.
    """
    if not _next_steps_shown:
        return
    lead = "next: "
    for step in steps:
        if isinstance(step, str):
            note(lead + step)
        else:
            command = shlex.join(["statetrace", *map(str, step)])
            err.print(Text(lead + command, style="dim"), soft_wrap=True)
        lead = " " * len(lead)


_next_steps_shown = True


@contextmanager
def without_next_steps() -> Iterator[None]:
    """For a command that runs others, such as the demo."""
    global _next_steps_shown
    _next_steps_shown = False
    try:
        yield
    finally:
        _next_steps_shown = True


class Work:
    """The live line of a command: what it does, a bar and the time left. On a terminal it vanishes
    when the work is done; elsewhere there is a line per finished lens instead."""

    def __init__(self, doing: str) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
            console=err,
            disable=not err.is_terminal,
            transient=True,
            redirect_stdout=False,
        )
        self._row = self._bar.add_task(doing, total=None, left="")
        self._seconds: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self._start = self._lens_start = time.monotonic()

    def doing(self, what: str) -> None:
        self._bar.update(self._row, description=what)

    def share(self, share: float) -> None:
        """The share of the work that is done, 0 to 1."""
        self._bar.update(self._row, total=1.0, completed=share)

    def estimate(self, seconds: Mapping[str, float]) -> None:
        """What has to be computed, and how long it may take."""
        self._seconds = {lens: max(each, 0.1) for lens, each in seconds.items()}
        self._shares, self._start = {}, time.monotonic()
        self._lens_start = self._start
        total = sum(self._seconds.values())
        if total >= 1:
            note(f"computing {', '.join(seconds)}: about {duration(total)}")

    def lens(self, lens: str, share: float) -> None:
        """Progress of one lens."""
        ended = share >= 1 and self._shares.get(lens, 0.0) < 1
        self._shares[lens] = share
        work = sum(self._seconds.values()) or 1.0
        done = sum(self._seconds.get(n, 0.0) * s for n, s in self._shares.items()) / work
        elapsed = time.monotonic() - self._start
        left = elapsed * (1 - done) / done if done > 0.1 else work * (1 - done)
        ahead = f"about {duration(left)} left" if self._seconds and done < 1 else ""
        self._bar.update(self._row, description=lens, total=1.0, completed=done, left=ahead)
        if ended:
            now = time.monotonic()
            if not err.is_terminal and now - self._lens_start >= 1:
                note(f"{lens}: {duration(now - self._lens_start)}")
            self._lens_start = now


@contextmanager
def working(doing: str = "loading") -> Iterator[Work]:
    """Show that a command works, from its first moment on. Only this draws on the terminal until
    the work is done; results and `warn` come after it."""
    work = Work(doing)
    try:
        with work._bar:
            yield work
    except KeyboardInterrupt:
        note("stopped; finished work is kept, and the same command continues")
        raise typer.Exit(130) from None
