"""The two streams people read: results on stdout, progress and complaints on stderr."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(sentence: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), sentence))


def note(sentence: str) -> None:
    err.print(Text(sentence, style="dim"))
