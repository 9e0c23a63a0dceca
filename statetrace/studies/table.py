"""One tidy table per study: a row per cell with its factors, its state and its results.

Cost: reading one small file per cell. Needs no torch.
Caveat: `seconds` does not count the work that a killed worker lost, which was repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from statetrace.files import replacing
from statetrace.studies.folder import Study
from statetrace.studies.survey import CellState, Survey

SETTINGS: dict[str, tuple[str, str]] = {
    "group": ("task", "group"),
    "length": ("task", "length"),
    "model": ("model", "name"),
    "layers": ("model", "layers"),
    "width": ("model", "width"),
    "pretrained": ("model", "pretrained"),
    "init_seed": ("model", "init_seed"),
    "learning_rate": ("training", "learning_rate"),
    "steps": ("training", "steps"),
}
"""Settings that have a column even where they are not a factor."""

MEASURED: dict[str, Any] = {
    "step": pa.int64(),
    "verdict": pa.string(),
    "confidence": pa.float64(),
    "quick_verdict": pa.string(),
    "accuracy": pa.float64(),
    "parity_accuracy": pa.float64(),
    "cutoff": pa.int64(),
    "parity_cutoff": pa.int64(),
    "longest": pa.int64(),
    "early_step": pa.int64(),
    "early_verdict": pa.string(),
    "early_accuracy": pa.float64(),
    "early_cutoff": pa.int64(),
    "early_parity_cutoff": pa.int64(),
    "seconds": pa.float64(),
    "device": pa.string(),
    "parameters": pa.int64(),
    "tries": pa.int64(),
    "why": pa.string(),
}


def row(state: CellState) -> dict[str, Any]:
    """A cell as a row; values that are not known yet are None.

    `verdict` is the full one where the study computes it, else the quick one; a cutoff that is None
    lies beyond `longest`.
    """
    recipe, outcome = state.cell.recipe, state.outcome or {}
    final, cost, early = outcome.get("final") or {}, outcome.get("cost") or {}, state.early or {}
    settings = {name: recipe[section][key] for name, (section, key) in SETTINGS.items()}
    named = {f"factor_{k}" if k in MEASURED else k: v for k, v in state.cell.levels.items()}
    return {
        "cell": state.cell.name,
        "state": state.state,
        **settings,
        **named,
        "step": final.get("step"),
        "verdict": final.get("mechanism", final.get("quick")),
        "confidence": final.get("confidence"),
        "quick_verdict": final.get("quick"),
        **{
            key: final.get(key)
            for key in ("accuracy", "parity_accuracy", "cutoff", "parity_cutoff", "longest")
        },
        "early_step": early.get("step"),
        "early_verdict": early.get("quick"),
        "early_accuracy": early.get("accuracy"),
        "early_cutoff": early.get("cutoff"),
        "early_parity_cutoff": early.get("parity_cutoff"),
        **{key: cost.get(key) for key in ("seconds", "device", "parameters")},
        "tries": outcome.get("tries"),
        "why": state.why,
    }


def results(study: Study) -> list[dict[str, Any]]:
    """The rows of every cell, ended or not."""
    return [row(state) for state in Survey(study).look()]


def evidence(study: Study) -> list[dict[str, Any]]:
    """The evidence of full verdicts, a row per number: `of` is an algorithm and `value` the cell's
    distance from it in this lens, or `of` is a parity measure and `value` its size."""
    return [
        {"cell": state.cell.name, "step": final["step"], "lens": lens, "of": of, "value": value}
        for state in Survey(study).look()
        if state.outcome and (final := state.outcome.get("final"))
        for lens, numbers in final.get("evidence", {}).items()
        for of, value in numbers.items()
    ]


def write_table(rows: list[dict[str, Any]], file: Path) -> Path:
    """Write parquet and, beside it, csv; both are replaced atomically."""
    table = table_of(rows)
    for path, write in ((file, pq.write_table), (file.with_suffix(".csv"), pc.write_csv)):
        with replacing(path) as temporary:
            write(table, temporary)
    return file


def write_tables(study: Study) -> dict[str, list[dict[str, Any]]]:
    """Write STUDY/results, evidence, proportions and associations, those that have rows; returns
    the rows by name."""
    from statetrace.studies.proportions import associations, proportions

    rows = results(study)
    tables = {
        "results": rows,
        "evidence": evidence(study),
        "proportions": proportions(rows, study.plan.factors),
        "associations": associations(rows, study.plan.factors),
    }
    tables = {name: rows for name, rows in tables.items() if rows}
    for name, rows in tables.items():
        write_table(rows, study.path / f"{name}.parquet")
    return tables


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    columns = list(rows[0]) if rows else []
    return pa.table(
        {name: pa.array([row[name] for row in rows], type=MEASURED.get(name)) for name in columns}
    )
