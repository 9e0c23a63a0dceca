"""Results go to stdout, progress and messages to stderr. A terminal wraps lines between words;
elsewhere a sentence stays on one line, so that it can be searched for."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def complain(sentence: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), sentence))


def note(sentence: str) -> None:
    err.print(Text(sentence, style="dim"))


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
