"""results/models.parquet: one row per model over all studies, and the manifest of checksums.

Rows come from study folders, results/calibration and run folders of single models;
results/README.md explains the columns.

Cost: a second. Caveat: `verdict` of a single model is the one its folder is named after.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reproduction.lens_model import AA, PAA, PAPER_LENGTH, SAME_RUN, LensModel
from reproduction.measures.patching import splits_apart
from reproduction.tables import Missing, Row, Tables
from statetrace.runs import Run

ALGORITHMS = ("sequential", "parallel", AA, PAA)
TIE = 0.005
"""Distances closer than this do not distinguish two algorithms."""
SPLIT_DISTANCE = 0.1
"""Patching maps of same- and opposite-parity pairs that differ by more, on average, are PAA's."""
STUDY_COLUMNS = (
    "verdict", "confidence", "accuracy", "parity_accuracy", "cutoff", "parity_cutoff", "longest",
    "early_step", "early_verdict", "early_accuracy", "early_cutoff", "early_parity_cutoff",
)  # fmt: skip
COLUMNS = (
    "study", "cell", "state", "model", "family", "size", "layers", "width", "parameters", "regime",
    "group", "form", "length", "seed", "init_seed", "step", "steps", "taught_parity",
    *STUDY_COLUMNS, "cutoff_verdict", "loss", "parity_lead", "patching_label", "probing_label",
    *(f"{lens}_{name.replace('-', '_')}" for lens in ("patching", "depth", "probing")
      for name in ALGORITHMS),
    "head_score", "head_score_by_chance", "parity_lost_without_head", "run_key", "duplicate",
)  # fmt: skip
TEXT = {"study", "cell", "state", "model", "family", "size", "regime", "group", "form", "verdict",
        "early_verdict", "cutoff_verdict", "patching_label", "probing_label",
        "run_key"}  # fmt: skip
FLAGS = {"taught_parity", "duplicate"}
WHOLE = {"layers", "width", "parameters", "length", "seed", "init_seed", "step", "steps", "cutoff",
         "parity_cutoff", "longest", "early_step", "early_cutoff",
         "early_parity_cutoff"}  # fmt: skip


def model_rows(tables: Tables) -> list[Row]:
    """All models, in a fixed order. Rows of one run share a `run_key`; later ones are flagged as
    duplicates. A run that was analyzed on its own lends what its study's table lacks: patching
    label, lead of parity and head scores."""
    rows = [*_calibration(tables)]
    for study in tables.studies():
        rows += _study(tables, study)
    rows += _single(tables)
    single = {row["run_key"]: row for row in rows if row["study"] == "single"}
    seen: set[str] = set()
    for row in rows:
        row["duplicate"] = row["run_key"] in seen
        seen.add(row["run_key"])
        for name in ("patching_label", "parity_lead", "head_score", "head_score_by_chance"):
            if row.get(name) is None:
                row[name] = single.get(row["run_key"], {}).get(name)
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def _key(recipe: Any) -> str:
    """Equal for equal recipes: one run in several studies, or at several steps."""
    if isinstance(recipe, dict):
        # older recipes lack these settings
        later = (("stop_learned", None), ("most_steps", None), ("own_first_token", False),
                 ("branch_from", None), ("branch_step", None))  # fmt: skip
        for part in ("training", "task"):
            settings = {k: v for k, v in recipe[part].items() if (k, v) not in later}
            recipe = recipe | {part: settings}
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]


def nearest(distances: dict[str, float]) -> str | None:
    """Which of the two mechanisms a lens finds nearer; None for a tie."""
    if abs(distances[AA] - distances[PAA]) < TIE:
        return None
    return AA if distances[AA] <= distances[PAA] else PAA


def _recipe_row(info: Row) -> Row:
    """What run.json records about a model; little if it only names the recipe."""
    recipe = info.get("recipe")
    if not isinstance(recipe, dict):
        task = info.get("foreign", {})
        return {"model": info.get("zoo"), "group": task.get("group"), "length": task.get("length"),
                "size": "small", "regime": "scratch", "form": "tokens"}  # fmt: skip
    task, model, training = (recipe[key] for key in ("task", "model", "training"))
    stages = recipe.get("stage") or ()
    published = model["layers"] is None and model["width"] is None
    return {
        "model": model["name"],
        "family": model["name"].split("-")[0],
        "size": "paper" if published and task["length"] >= PAPER_LENGTH else "small",
        "layers": model["layers"],
        "width": model["width"],
        "parameters": info.get("parameters"),
        "regime": _regime(stages),
        "group": task["group"],
        "form": task.get("form", "tokens"),
        "length": task["length"],
        "seed": training["seed"],
        "init_seed": model.get("init_seed"),
        "steps": training["steps"],
        "taught_parity": any(s.get("objective") == "parity" or s.get("auxiliary") for s in stages),
    }


def _regime(stages: Any) -> str:
    if any(stage.get("auxiliary") for stage in stages):
        return "auxiliary"
    before = [stage["objective"] for stage in stages if stage.get("objective") != "state"]
    return before[0] if before else "length" if len(stages) > 1 else "scratch"


def _distances(lenses: dict[str, Any]) -> Row:
    row: Row = {}
    for lens in ("patching", "depth", "probing"):
        for name in ALGORITHMS if lens in lenses else ():
            row[f"{lens}_{name.replace('-', '_')}"] = lenses[lens].get(name)
        if lens != "depth" and lens in lenses and AA in lenses[lens] and PAA in lenses[lens]:
            row[f"{lens}_label"] = nearest(lenses[lens])
    return row


def _study(tables: Tables, study: str) -> Iterator[Row]:
    folder = tables.study(study)
    losses = {line["cell"]: float(line["loss"]) for line in tables.csv(f"{study}/losses.csv")}
    for cell, line in zip(folder.plan.cells, tables.study_rows(study), strict=True):
        run = f"{study}/cells/{cell.name}/run.json"
        info = tables.json(run) if tables.exists(run) else {}
        lenses = ((folder.outcome(cell) or {}).get("final") or {}).get("evidence", {})
        head = lenses.get("attention", {})
        row = _recipe_row(info or {"recipe": cell.recipe})
        row |= {"study": study, "cell": cell.name, "state": line["state"], "step": line["step"]}
        row |= {name: line.get(name) for name in STUDY_COLUMNS}
        row |= {
            "regime": line.get("regime") or line.get("initialisation") or "scratch",
            "cutoff_verdict": line["quick_verdict"],
            "loss": _loss(folder.run(cell)) or losses.get(cell.name),
            "parity_lead": lenses.get("dynamics", {}).get("parity lead"),
            "head_score": head.get("score"),
            "head_score_by_chance": head.get("by chance"),
            "parity_lost_without_head": head.get("parity lost"),
        }
        row["run_key"] = _key(info["recipe"] if info else f"{study}/{cell.name}")
        yield row | _distances(lenses)


def _loss(run: Run) -> float | None:
    """The held-out loss at the end, where the log was kept; studies without logs have
    losses.csv."""
    evaluations = run.evaluations() if run.exists() else []
    return float(f"{evaluations[-1]['loss']:.4g}") if evaluations else None


def _calibration(tables: Tables) -> Iterator[Row]:
    """Trained models of the verdict's calibration whose run is recorded."""
    for line in tables.json_lines("calibration/trained.jsonl"):
        run, lenses = f"calibration/runs/{line['name']}.json", line["measures"]
        if lenses and tables.exists(run):
            info = tables.json(run)
            row = _recipe_row(info) | _distances(lenses)
            row |= {"study": "calibration", "cell": line["name"], "state": "finished",
                    "verdict": line["label"], "cutoff_verdict": line["fast"],
                    "parity_lead": lenses.get("dynamics"),
                    "run_key": _key(info["recipe"])}  # fmt: skip
            yield row


def _single(tables: Tables) -> Iterator[Row]:
    for name in sorted(tables.single_models(), key=lambda name: name in SAME_RUN):
        info = tables.json(f"{name}/run.json")
        model = LensModel(tables, name)
        row = _recipe_row(info) | {"study": "single", "cell": name, "state": "finished",
                                   "verdict": model.mechanism or None, "step": model.step,
                                   "patching_label": map_label(model)}  # fmt: skip
        for lens in ("generalization", "dynamics", "attention"):
            row |= _summary_row(lens, model.summary(lens) if model.has(lens) else {})
        run = tables.json(f"{SAME_RUN.get(name, name)}/run.json")
        yield row | {"run_key": _key(run.get("recipe"))}


def map_label(model: LensModel) -> str | None:
    """By whether patching maps of same- and opposite-parity pairs are alike."""
    try:
        return PAA if splits_apart(model).value > SPLIT_DISTANCE else AA
    except Missing:
        return None


def _summary_row(lens: str, summary: Row) -> Row:
    if lens == "generalization" and "cutoff" in summary and "parity" in summary["cutoff"]:
        ends = {what: summary["cutoff"][what]["first_below"] for what in ("state", "parity")}
        accuracy = summary["accuracy"]
        return {"cutoff": ends["state"], "parity_cutoff": ends["parity"],
                "longest": summary["longest"], "accuracy": accuracy["state"],
                "parity_accuracy": accuracy.get("parity")}  # fmt: skip
    if lens == "dynamics" and "parity" in summary.get("lead", {}):
        return {"parity_lead": summary["lead"]["parity"]["share"]}
    if lens == "attention" and "top_score_by_chance" in summary and summary.get("top_heads"):
        return {"head_score": summary["top_heads"][0]["score"],
                "head_score_by_chance": summary["top_score_by_chance"]}  # fmt: skip
    return {}


def arrow_table(rows: list[Row]) -> pa.Table:
    def kind(name: str) -> pa.DataType:
        if name in TEXT:
            return pa.string()
        return pa.bool_() if name in FLAGS else pa.int64() if name in WHOLE else pa.float64()

    columns = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in WHOLE:
            values = [None if value is None else int(value) for value in values]
        columns[name] = pa.array(values, kind(name))
    return pa.table(columns)


def write_models(root: Path, rows: list[Row]) -> Path:
    file = root / "results" / "models.parquet"
    pq.write_table(arrow_table(rows), file, compression="zstd")
    return file


GENERATED = ("MANIFEST.sha256", "README.md", "models.parquet", "report.html", "accuracy.*")
"""Files of results/ that are written from the others, or by commands that show them."""


def manifest(root: Path) -> str:
    """A SHA-256 line for every file of results/ that is not GENERATED, in the format that
    `sha256sum --check` reads."""
    folder = root / "results"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
        if not any(path.match(name) for name in GENERATED) and path.parent.name != "figures"
    )
