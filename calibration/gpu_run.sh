#!/bin/bash
# Train the models of models.toml and measure them while others train, from a plain source tree.
#
#   PYTHON=python3 MINUTES=9 OUT=packed bash calibration/gpu_run.sh [FILE.toml]
#
# JOBS workers share the GPU, each with a stack of seeds. PROCESSES processes measure finished models on the CPU, then the stability
# of the verdict for one seed of each shape, then earlier checkpoints. After MINUTES, or when all is done, OUT has calibration.tar.gz
# (the measurements) and weights.tar (bf16 weights of seeds 0, up to 15 MB). The same command continues a stopped run. To continue on
# another machine, unpack calibration.tar.gz into RUNS first; models that were measured are not trained again.
set -uo pipefail
export PYTHONPATH=$PWD OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
PYTHON=${PYTHON:-.venv/bin/python} RUNS=${RUNS:-runs} JOBS=${JOBS:-6} PROCESSES=${PROCESSES:-8}
OUT=${OUT:-$RUNS/packed} STUDY=$RUNS/calibration FILE=${1:-calibration/models.toml}
DEADLINE=$((SECONDS + 60 * ${MINUTES:-60}))
mkdir -p "$RUNS" "$OUT"

limited() { # run a command, and end it and its processes at the deadline
    timeout --signal=TERM --kill-after=20 $((DEADLINE > SECONDS ? DEADLINE - SECONDS : 1)) "$@"
}
measure() {
    CUDA_VISIBLE_DEVICES='' limited nice "$PYTHON" -m "$@" --processes "$PROCESSES" >> "$STUDY/measure.log" 2>&1
}

"$PYTHON" -m statetrace study run "$FILE" --out "$STUDY" --prepare || exit 1
limited "$PYTHON" -m statetrace study run "$FILE" --out "$STUDY" --jobs "$JOBS" > "$STUDY/study.log" 2>&1 &
measure calibration.trained --study "$STUDY" --out "$STUDY/trained.jsonl" --checkpoints 1
measure calibration.stability "$STUDY"/cells/*_seed-0 --out "$STUDY/stability.jsonl"
measure calibration.trained --study "$STUDY" --out "$STUDY/trained.jsonl" --checkpoints 3

"$PYTHON" - "$STUDY" "$OUT" << 'END'
import json, sys, tarfile
from pathlib import Path

from reproduction.export import export_run
from statetrace.runs import Run

study, out = map(Path, sys.argv[1:])
file = study / "trained.jsonl"
names = {json.loads(line)["name"] for line in file.read_text().splitlines()} if file.exists() else set()
newest = {cell.name: f"{study.name}/{cell.name}@{Run(cell).checkpoints()[-1][0]}" for cell in sorted(study.glob("cells/*")) if Run(cell).checkpoints()}
measured = [cell for cell, name in newest.items() if name in names]
earlier = [path.stem for path in study.glob("outcomes/*.json") if path.stem not in newest]  # from another machine
with tarfile.open(out / "calibration.tar.gz", "w:gz") as tar:
    for path in [study / "study.json", *study.glob("*.jsonl"), *study.glob("*.log"), *study.glob("failures/*.txt")]:
        tar.add(path, path.relative_to(study.parent))
    for cell in measured + earlier:
        tar.add(study / "outcomes" / f"{cell}.json", f"{study.name}/outcomes/{cell}.json")
size = 0
with tarfile.open(out / "weights.tar", "w") as tar:
    for cell in measured:
        folder = study / "exported" / cell
        if cell.endswith("_seed-0") and size < 14_500_000:
            export_run(study / "cells" / cell, folder, 700_000)
            more = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
            if size + more < 15_000_000 and list(folder.rglob("*.safetensors")):
                tar.add(folder, f"{study.name}/cells/{cell}")
                size += more
print(f"{len(measured)} models measured, {len(names)} checkpoints; {size / 1e6:.1f} MB of weights")
END
tail -n 3 "$STUDY"/*.log
ls -l "$OUT"
wait
