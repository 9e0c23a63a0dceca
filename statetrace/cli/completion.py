"""What a shell completes: models, run folders, recipes and lenses. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
    from statetrace.lenses.result import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def complete_lenses(incomplete: str) -> list[str]:
    """The last of several names separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_lens(last)]


def _runs(incomplete: str) -> Iterator[str]:
    typed = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    for folder in dict.fromkeys((typed, Path("runs"))):
        for file in sorted(folder.glob("*/run.json")):
            yield str(file.parent)
