"""Calibrate the verdict: `python -m calibration --out FOLDER [--processes N]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibration.fitting import report
from calibration.labelled import make


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate the verdict.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--trained", type=Path, help="measures of trained models, a JSON per line")
    arguments = parser.parse_args()
    rows = make(arguments.out, arguments.processes, arguments.limit)
    report(rows, arguments.trained, arguments.out)


if __name__ == "__main__":
    main()
