"""One tidy table per study: a row per cell, what was varied, how it stands and what it learned.

Cost: reading one small file per cell. Needs no torch.
Caveat: `seconds` are those of sittings that ended in order; what a killed worker had done since its
last checkpoint was done again and is counted once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

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
"""Settings that have a column even where they are no factor."""

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


def row(one: CellState) -> dict[str, Any]:
    """A cell as a row; what is not known yet is None.

    `verdict` is the full one where the study makes it and the quick one otherwise; a cutoff that is
    None lies beyond `longest`.
    """
    recipe, outcome = one.cell.recipe, one.outcome or {}
    final, cost, early = outcome.get("final") or {}, outcome.get("cost") or {}, one.early or {}
    settings = {name: recipe[section][key] for name, (section, key) in SETTINGS.items()}
    named = {f"factor_{k}" if k in MEASURED else k: v for k, v in one.cell.levels.items()}
    return {
        "cell": one.cell.name,
        "state": one.state,
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
        "why": one.why,
    }


def results(study: Study) -> list[dict[str, Any]]:
    """The rows of every cell, ended or not."""
    return [row(one) for one in Survey(study).look()]


def evidence(study: Study) -> list[dict[str, Any]]:
    """What full verdicts rest on, a row per number: `of` is an algorithm, and `value` how far from
    it a lens finds the cell; or what of parity, and how much."""
    return [
        {"cell": one.cell.name, "step": final["step"], "lens": lens, "of": of, "value": value}
        for one in Survey(study).look()
        if one.outcome and (final := one.outcome.get("final"))
        for lens, numbers in final.get("evidence", {}).items()
        for of, value in numbers.items()
    ]


def write_results(study: Study) -> Path:
    """STUDY/results.parquet and .csv, replaced whole; the path of the former."""
    return write_table(results(study), study.path / "results.parquet")


def write_table(rows: list[dict[str, Any]], file: Path) -> Path:
    """As parquet and, beside it, as csv."""
    table = table_of(rows)
    for path, write in ((file, pq.write_table), (file.with_suffix(".csv"), pc.write_csv)):
        beside = path.with_name(f".{path.name}")
        write(table, beside)
        beside.replace(path)
    return file


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    columns = list(rows[0]) if rows else []
    return pa.table(
        {name: pa.array([one[name] for one in rows], type=MEASURED.get(name)) for name in columns}
    )
