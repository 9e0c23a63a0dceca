"""Results go to stdout, progress and messages to stderr. A terminal wraps lines between words;
elsewhere a sentence stays on one line, so that it can be searched for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def complain(sentence: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), sentence))


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
    lines = [s if isinstance(s, str) else shlex.join(["statetrace", *map(str, s)]) for s in steps]
    err.print(Text("next: " + "\n      ".join(lines), style="dim"), soft_wrap=True)


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


@contextmanager
def lens_bars(transient: bool = False) -> Iterator[Callable[[str, float], None]]:
    """A progress bar per lens; yields the callback that moves them."""
    with bars(transient) as progress:
        rows: dict[str, TaskID] = {}

        def on_progress(lens: str, share: float) -> None:
            if lens not in rows:
                rows[lens] = progress.add_task(lens, total=1.0)
            progress.update(rows[lens], completed=share)
            if share >= 1.0:
                progress.stop_task(rows[lens])

        yield on_progress


def bars(transient: bool = False) -> Progress:
    """A progress bar per lens, on stderr; none where stderr is not a terminal."""
    return Progress(
        TextColumn("{task.description:15}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=err,
        disable=not err.is_terminal,
        transient=transient,
    )
