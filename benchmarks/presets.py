"""Which settings learn: a table of the study `presets.toml`, a row per shape and one per seed.

A seed has learned a task if 99% of the states are correct at every length of two evaluations in a
row, which is where `stop_learned` would end the run. Works on an unfinished study.

    python benchmarks/presets.py runs/presets --csv presets.csv     # seconds
"""

from __future__ import annotations

import argparse
import csv
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from statetrace.studies.folder import Study

LEARNED = 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--csv", type=Path, help="also write the row of each seed")
    options = parser.parse_args()
    rows = [row for row in seeds(Study.existing(options.study)) if row["last"]]
    print(f"{'shape':<22} {'learned':>8} {'median step':>12} {'last step':>10}   not learned")
    for shape, group in groupby(rows, key=lambda row: row["shape"]):
        summarize(shape, list(group))
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def seeds(study: Study) -> list[dict[str, Any]]:
    """For each seed the step at which it had learned and its accuracy at the end."""
    rows = []
    for cell in study.plan.cells:
        evaluations = study.run(cell).evaluations()
        shares = [(each["step"], each["accuracy_by_length"]["state"]) for each in evaluations]
        learned = [
            step
            for (_, before), (step, after) in pairwise(shares)
            if min(before) >= LEARNED and min(after) >= LEARNED
        ]
        last, final = shares[-1] if shares else (0, [0.0])
        rows.append(
            dict(cell.levels)
            | {"learned": learned[0] if learned else "", "last": last}
            | {"accuracy": round(final[-1], 4), "by_length": " ".join(f"{x:.3f}" for x in final)}
        )
    return rows


def summarize(shape: str, rows: list[dict[str, Any]]) -> None:
    learned = [row["learned"] for row in rows if row["learned"]]
    left = [f"{row['seed']}: {row['accuracy']:.1%}" for row in rows if not row["learned"]]
    middle, latest = (f"{median(learned):,.0f}", f"{max(learned):,}") if learned else ("", "")
    share = f"{len(learned)}/{len(rows)}"
    print(f"{shape:<22} {share:>8} {middle:>12} {latest:>10}   {', '.join(left)}")


if __name__ == "__main__":
    main()
