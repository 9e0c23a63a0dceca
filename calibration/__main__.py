"""Calibrate the verdict: `python -m calibration [--measure] [--processes N]`.

Fits the weights to calibration/data/{compiled,others,study,trained}.jsonl, evaluates them on the
fresh models of calibration/data/fresh-*.jsonl, and writes statetrace/mechanisms/weights.json and
docs/calibration.md. With --measure, compiled models that the files lack are measured first.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from calibration import compiled
from calibration.fitting import fit
from calibration.report import SETS, measured, page
from statetrace.files import write_text

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[1]
FITTED = [file for name, file in SETS.items() if name.startswith("fitted")]


def rows(name: str) -> list[dict[str, object]]:
    file = DATA / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate the verdict.")
    parser.add_argument("--measure", action="store_true", help="measure missing compiled models")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep-weights", action="store_true", help="evaluate the bundled weights")
    arguments = parser.parse_args()
    if arguments.measure:
        for name, specs in compiled.sets().items():
            compiled.measure(DATA / f"{name}.jsonl", specs, arguments.processes)
    weights = None
    if not arguments.keep_weights:
        weights = fit([row for file in FITTED for row in rows(file)])
    about = measured(rows, weights)
    write_text(ROOT / "statetrace/mechanisms/weights.json", json.dumps(about, indent=2) + "\n")
    (ROOT / "docs/calibration.md").write_text(page(rows, about))


if __name__ == "__main__":
    main()
