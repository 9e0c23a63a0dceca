"""Export a study folder to results/: study.json, results.csv, evidence.csv, runs/CELL.json of every
finished cell, losses.csv (last and least held-out loss) and, where sequences grow by stages,
stages.csv (accuracy at the end of each stage but the last).

Caveat: files of an earlier export are replaced.
"""

from __future__ import annotations

import csv
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv as pc

from reproduction.tables import Row
from statetrace.config.recipe import Recipe
from statetrace.runs import write_json
from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.table import evidence, results, table_of

LOSSES = ("cell", "step", "loss", "least_step", "least")
STAGES = ("cell", "stage", "length", "state", "parity", "next", "next_state", "next_parity")


def export_study(path: Path, out: Path) -> list[Path]:
    """The files written."""
    study = Study.existing(path)
    (out / "runs").mkdir(parents=True, exist_ok=True)
    written = [out / "study.json"]
    shutil.copyfile(path / "study.json", written[0])
    rows = results(study)
    for name, table in (("results", rows), ("evidence", evidence(study))):
        if table:
            written.append(out / f"{name}.csv")
            pc.write_csv(table_of(table), written[-1])
    for row in rows:
        if row["state"] == FINISHED:
            written.append(out / "runs" / f"{row['cell']}.json")
            write_json(written[-1], study.run(study.cell(row["cell"])).info)
    cells = json.loads((path / "study.json").read_text())["cells"]
    for name, columns, lines in (
        ("losses", LOSSES, _losses(path, cells)), ("stages", STAGES, _stages(path, cells)),
    ):  # fmt: skip
        table = list(lines)
        if table:
            written.append(out / f"{name}.csv")
            with written[-1].open("w", newline="") as stream:
                writer = csv.DictWriter(stream, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(table)
    return written


def _evaluations(study: Path, cell: str) -> list[Row]:
    log = study / "cells" / cell / "metrics.jsonl"
    lines = map(json.loads, log.read_text().splitlines()) if log.is_file() else ()
    return [line for line in lines if line["kind"] == "evaluation"]


def _losses(study: Path, cells: list[dict[str, Any]]) -> Iterator[Row]:
    for cell in cells:
        last = Recipe.of(cell["recipe"]).stages[-1].label
        losses = [
            (line["loss"], line["step"])
            for line in _evaluations(study, cell["name"])
            if line.get("stage", last) == last
        ]
        if losses:
            (loss, step), (least, least_step) = losses[-1], min(losses)
            values = (cell["name"], step, float(f"{loss:.4g}"), least_step, float(f"{least:.4g}"))
            yield dict(zip(LOSSES, values, strict=True))


def _stages(study: Path, cells: list[dict[str, Any]]) -> Iterator[Row]:
    for cell in cells:
        stages = Recipe.of(cell["recipe"]).stages
        if len({stage.length for stage in stages}) == 1:
            continue
        ends = {
            line["stage"]: line["accuracy_by_length"] for line in _evaluations(study, cell["name"])
        }
        for stage, later in itertools.pairwise(stages):
            if stage.label in ends:
                accuracy = ends[stage.label]
                row = {"cell": cell["name"], "stage": stage.label, "length": stage.length,
                       "next": later.length}  # fmt: skip
                for prefix, length in (("", stage.length), ("next_", later.length)):
                    row |= {f"{prefix}{w}": accuracy[w][length - 1] for w in ("state", "parity")}
                yield row
