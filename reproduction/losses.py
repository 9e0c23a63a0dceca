"""The loss at which the models of a study ended, as a small table for results/.

A row per cell: its last evaluation on held-out sequences, at which step, and the least there was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError

DIGITS = 4
COLUMNS = ("cell", "step", "loss", "least_step", "least")


def rows(study: Path) -> Iterator[dict[str, Any]]:
    file = study / "study.json"
    if not file.is_file():
        raise StatetraceError(f"'{study}' is no study folder: it has no study.json")
    for cell in json.loads(file.read_text())["cells"]:
        last = Recipe.of(cell["recipe"]).stages[-1].label
        log = study / "cells" / cell["name"] / "metrics.jsonl"
        lines = map(json.loads, log.read_text().splitlines()) if log.is_file() else ()
        found = [
            (line["loss"], line["step"])
            for line in lines
            if line["kind"] == "evaluation" and line.get("stage", last) == last
        ]
        if found:
            (loss, step), (least, least_step) = found[-1], min(found)
            found_here = (cell["name"], step, _short(loss), least_step, _short(least))
            yield dict(zip(COLUMNS, found_here, strict=True))


def _short(loss: float) -> float:
    return float(f"{loss:.{DIGITS}g}")
