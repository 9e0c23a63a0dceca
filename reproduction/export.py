"""Export a run or a study to small text files in results/.

    python -m reproduction.export runs/zoo/s3-rotary --out results/zoo/s3-rotary
    python -m reproduction.export runs/tiny-split --out results/tiny-split

A run: run.json without machine paths, LENS.json (settings, summary, notes) and LENS.csv (the tidy
table) per lens, drawn.json (arrays that figures need). A study: export_study.py. No weights.

Cost: a second; 180 KB per run, a megabyte at length 100. Caveat: patching keeps the NLD per cell,
not per pair; probing keeps the model's own probes, not those of the controls.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.export_study import export_study
from statetrace.errors import StatetraceError
from statetrace.lenses.parts.intervals import median_interval
from statetrace.lenses.result import NAMES, LensResult
from statetrace.reports.figures.attention import tree_layers, trees
from statetrace.runs import Run, write_json
from statetrace.zoo import catalogue

DIGITS = 4
COLUMNS = {
    "patching": ("where", "what", "layer", "position", "split", "metric", "mean", "std", "n",
                 "median", "median_low", "median_high"),
    "probing": ("target", "position", "length", "layer", "metric", "mean", "std", "n", "chance"),
    "attention": ("measure", "name", "layer", "head", "mean", "std", "low", "high", "n"),
}  # fmt: skip
"""Columns of shortened tables; others are exported whole."""


def export_run(run: Path, out: Path, length: int | None = None) -> list[Path]:
    """The files written. Results of `analyze --at-length` at `length` come before the others."""
    info = {k: v for k, v in Run.existing(run).info.items() if k != "foreign"}
    foreign = Run.existing(run).info.get("foreign")
    if foreign:
        info["foreign"] = {k: v for k, v in foreign.items() if k != "folder"}
    if "zoo" in info:
        info |= {name: catalogue()[info["zoo"]][name] for name in ("recipe", "sha256")}
    folders = _where(run / "lenses", length)
    if not folders:
        raise StatetraceError(f"'{run}' has no lens results; run `statetrace analyze {run}` first")
    results = {name: LensResult.load(folder, name) for name, folder in folders.items()}
    steps = sorted({str(_step(r)["step"]) for r in results.values() if _step(r)})
    if len(steps) > 1:
        raise StatetraceError(
            f"'{run}' has results of steps {' and '.join(steps)}; run `statetrace analyze {run}`"
        )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "run.json", info)
    written = [out / "run.json"]
    arrays: dict[str, Any] = {}
    for name, result in results.items():
        summary = {k: v for k, v in result.summary.items() if k != "curves"}  # in the table
        spec = {k: v for k, v in result.spec.items() if k != "run"}  # a machine path
        about = {"lens": name, "subject": _step(result), "spec": spec, "summary": summary}
        write_json(out / f"{name}.json", _rounded(about | {"notes": list(result.notes)}))
        _write_csv(result, out / f"{name}.csv")
        written += [out / f"{name}.json", out / f"{name}.csv"]
        arrays |= _arrays(result)
    if arrays:
        written.append(out / "drawn.json")
        written[-1].write_text(json.dumps(_rounded(arrays)) + "\n")
    return written


def _where(folder: Path, length: int | None) -> dict[str, Path]:
    """The folder of each lens's results."""
    folders = [folder] if length is None else [folder / f"length-{length}", folder]
    if length is not None and not folders[0].is_dir():
        raise StatetraceError(f"'{folders[0]}' is missing; run `statetrace analyze` first")
    existing = {
        name: [path for path in folders if (path / f"{name}.json").is_file()] for name in NAMES
    }
    return {name: paths[0] for name, paths in existing.items() if paths}


def _step(result: LensResult) -> dict[str, Any]:
    """The checkpoint it describes, where that belongs to a run."""
    return {"step": result.subject["step"]} if result.subject.get("step") is not None else {}


def _write_csv(result: LensResult, file: Path) -> None:
    rows = [row for row in result.rows() if _exported(result.lens, row)]
    if result.lens == "patching":
        rows = [row | _median(result, row) for row in rows]
    names = COLUMNS.get(result.lens, tuple(result.columns))
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rounded(rows))


def _median(result: LensResult, row: dict[str, Any]) -> dict[str, float]:
    """The median over all pairs, with its interval."""
    if row["split"] != "all":
        return {}
    name = f"{row['where']}{row['window'] or ''}-{row['what']}-{row['kind']}"
    sites = result.arrays[f"{name}.rows"].tolist()
    site = sites.index([row["layer"], -1 if row["head"] is None else row["head"]])
    over_pairs = result.arrays[f"{name}.nld"][site, row["position"]]
    if not over_pairs.size:
        return {}
    low, high = median_interval(over_pairs)
    return {"median": float(np.median(over_pairs)), "median_low": low, "median_high": high}


def _exported(lens: str, row: dict[str, Any]) -> bool:
    if lens == "patching":
        return bool(row["metric"] == "nld")
    if lens == "probing":
        return bool(row["control"] == "none")
    return lens != "attention" or row["measure"] == "head score"


def _arrays(result: LensResult) -> dict[str, Any]:
    """Arrays that figures need: maps of the top heads, the fullest attention tree, the clearest
    prism and the points of the last layer."""
    drawn: dict[str, Any] = {}
    if result.lens == "attention":
        names = {"top_maps": "maps", "top_maps_odd": "odd", "top_maps_heads": "heads"}
        drawn |= {to: result.arrays[name].tolist() for name, to in names.items()
                  if name in result.arrays}  # fmt: skip
        for number in trees(result)[:1]:
            parts = ("edges", "weights", "actions")
            kept = {part: result.arrays[f"tree{number}_{part}"].tolist() for part in parts}
            about = {"layers": tree_layers(result), "above": result.spec.get("weight", 0.95)}
            drawn["tree"] = kept | about
    if result.lens == "geometry":
        best = result.summary.get("best_layer")
        if best is not None:
            at = result.arrays["layers"].tolist().index(best)
            kept = {"prism_means": "decomposition_means", "prism_errors": "decomposition_errors"}
            drawn |= {to: result.arrays[name][at].tolist() for to, name in kept.items()
                      if name in result.arrays}  # fmt: skip
        if "pca_points" in result.arrays:
            drawn["last"] = {
                "means": [  # None for a state that no sequence reached
                    mean.tolist() if np.isfinite(mean).all() else None
                    for mean in result.arrays["pca_means"][-1]
                ],
                "points": result.arrays["pca_points"][-1].tolist(),
                "states": result.arrays["point_states"].tolist(),
            }
    return drawn


def _rounded(value: Any) -> Any:
    """Floats with DIGITS significant digits."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description="Export a run or study to results/.")
    parser.add_argument("run", type=Path, help="an analyzed run folder, or a study folder")
    parser.add_argument("--out", type=Path, required=True, help="such as results/NAME")
    parser.add_argument("--length", type=int, help="the length given to `analyze --at-length`")
    arguments = parser.parse_args()
    try:
        if (arguments.run / "study.json").is_file():
            export_study(arguments.run, arguments.out)
        else:
            export_run(arguments.run, arguments.out, arguments.length)
    except StatetraceError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
