"""What the paper looks at models with beside what results say: a table of REPRODUCTION.md."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from reproduction.model_selection import S5_A, S5_P, A, P, about, first
from reproduction.results import Missing, Results, lens_file

Reading = Callable[[dict[str, Any]], str]
"""From what a lens says of its result, beside the table."""


def _window(kept: dict[str, Any]) -> str:
    sizes = {grid["window"] for grid in kept["spec"]["grids"] if grid["where"] == "window"}
    return ", ".join(map(str, sorted(sizes)))


def _probed(kept: dict[str, Any]) -> str:
    lengths = kept["summary"]["lengths"]
    return f"{min(lengths)} to {max(lengths)}"


def _scored(kept: dict[str, Any]) -> str:
    return f"{kept['spec']['first']} to {kept['spec']['last']}"


SETTINGS: tuple[tuple[str, str, str, Reading, str, str], ...] = (
    ("actions deleted at a time (App. B)", "1", "patching", _window, A, P),
    ("lengths with probes of their own (App. C.2)", "5 to 100", "probing", _probed, A, P),
    ("lengths of parity-head scores, S3 (App. F)", "5 to 80", "attention", _scored, A, P),
    ("lengths of parity-head scores, S5 (App. F)", "5 to 50", "attention", _scored, S5_A, S5_P),
)
"""In words, the paper's, the lens and how to read it, and the models it is of."""


def looked_with(found: Results) -> list[str]:
    """The lines of the table."""
    lines = [
        "## What models were looked at with (App. B, C and F)",
        "",
        "A model that still learns is looked at up to the length that it knows.",
        "",
        "| setting | paper | AA model | PAA model |",
        "|---|--:|---|---|",
    ]
    for words, paper, lens, read, *models in SETTINGS:
        cells = [_said(found, model, lens, read) for model in models]
        lines.append(f"| {words} | {paper} | {' | '.join(cells)} |")
    return [*lines, ""]


def _said(found: Results, model: str, lens: str, read: Reading) -> str:
    with contextlib.suppress(Missing):
        name, said = first(found, model, lambda of: read(found.json(lens_file(of, lens, "json"))))
        return f"**{said}**, {about(found, name, shorter=False) or name}"
    return "not looked at yet"
