"""What a shell completes: models, run folders, recipes and lenses. Needs no torch."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def joined_at_colon() -> Iterator[None]:
    """Bash passes zoo:NAME as three words and replaces the last one only: while it asks for
    completions, join the words and print NAME alone."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    typed = "\n".join(words[: int(os.environ.get("COMP_CWORD", 0)) + 1])
    joined = typed.replace("\nzoo\n:\n", "\nzoo:").replace("\nzoo\n:", "\nzoo:")
    if joined == typed:
        yield
        return
    os.environ |= {"COMP_WORDS": joined, "COMP_CWORD": str(joined.count("\n"))}
    stdout, prefix = sys.stdout, "zoo:" if ":" in joined.rpartition("\n")[2] else ""
    with contextlib.redirect_stdout(io.StringIO()) as replies:
        try:
            yield
        finally:
            stdout.write(replies.getvalue().replace(prefix, ""))


def complete_model(incomplete: str) -> list[str]:
    """zoo:NAME, and run folders here, in runs/ and below what was typed; for other paths the shell
    completes files itself."""
    from statetrace.zoo import catalogue

    names = [f"zoo:{name}" for name in catalogue()]
    return [name for name in (*names, *_runs(incomplete)) if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    return [name for name in _runs(incomplete) if name.startswith(incomplete)]


def complete_recipe(incomplete: str) -> list[str]:
    from statetrace.config.bundled import bundled_names

    return [name for name in bundled_names() if name.startswith(incomplete)]


def complete_lens(incomplete: str) -> list[str]:
    from statetrace.lenses.registry import BUILTIN

    return [name for name in BUILTIN if name.startswith(incomplete)]


def complete_lenses(incomplete: str) -> list[str]:
    """The last of several names separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_lens(last)]


def _runs(incomplete: str) -> Iterator[str]:
    typed = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    for folder in dict.fromkeys((typed, Path("runs"))):
        for file in sorted(folder.glob("*/run.json")):
            yield str(file.parent)
