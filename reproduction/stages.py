"""What the models of a study knew at the end of each stage, as a small table for results/.

A row for every stage but the last of cells whose sequences become longer from stage to stage: how
often state and parity were right at the stage's own length, and at that of the next.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError

COLUMNS = ("cell", "stage", "length", "state", "parity", "next", "next_state", "next_parity")


def rows(study: Path) -> Iterator[dict[str, Any]]:
    file = study / "study.json"
    if not file.is_file():
        raise StatetraceError(f"'{study}' is no study folder: it has no study.json")
    for cell in json.loads(file.read_text())["cells"]:
        stages = Recipe.of(cell["recipe"]).stages
        log = study / "cells" / cell["name"] / "metrics.jsonl"
        if len({stage.length for stage in stages}) == 1 or not log.is_file():
            continue
        ends = {  # the last evaluation of each stage
            line["stage"]: line["accuracy_by_length"]
            for line in map(json.loads, log.read_text().splitlines())
            if line["kind"] == "evaluation"
        }
        for stage, later in itertools.pairwise(stages):
            if stage.label not in ends:
                continue
            knows = ends[stage.label]
            row = {"cell": cell["name"], "stage": stage.label}
            for prefix, length in (("", stage.length), ("next_", later.length)):
                row |= {f"{prefix}{what}": knows[what][length - 1] for what in ("state", "parity")}
            yield row | {"length": stage.length, "next": later.length}
