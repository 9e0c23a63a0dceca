#!/bin/bash
# Train the models of a study and measure them while others train, from a plain source tree.
#
#   PYTHON=python3 MINUTES=9 OUT=packed bash calibration/gpu_run.sh [calibration/fresh.toml]
#
# JOBS workers share the GPU, each with a stack of seeds. PROCESSES processes measure finished models on the CPU and, while none
# waits, the earlier checkpoints of the first two seeds; then the stability of the verdict for the first seed of every STABLE-th
# shape. Training stops after TRAINING minutes, all else after MINUTES. Then OUT has NAME.tar.gz (the measurements) and
# NAME-weights.tar (bf16 weights of first seeds, up to WEIGHTS MB), where NAME is that of the file. The same command continues a
# stopped run. To continue on another machine, unpack NAME.tar.gz into RUNS first; models that were measured are not trained again.
set -uo pipefail
export PYTHONPATH=$PWD OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
PYTHON=${PYTHON:-.venv/bin/python} RUNS=${RUNS:-runs} JOBS=${JOBS:-6} PROCESSES=${PROCESSES:-8}
MINUTES=${MINUTES:-60} STABLE=${STABLE:-1} WEIGHTS=${WEIGHTS:-15}
TRAINING=${TRAINING:-$MINUTES}
FILE=${1:-calibration/models.toml} OUT=${OUT:-$RUNS/packed}
NAME=$(basename "$FILE" .toml)
[ "$NAME" = models ] && NAME=calibration
STUDY=$RUNS/$NAME
mkdir -p "$RUNS" "$OUT"

limited() { # MINUTES COMMAND ...: end the command and its processes when so much time has passed since the start
    local left=$(awk "BEGIN { print int(60 * $1) - $SECONDS }")
    timeout --signal=TERM --kill-after=20 $((left > 0 ? left : 1)) "${@:2}"
}
measure() {
    CUDA_VISIBLE_DEVICES='' limited "$MINUTES" nice "$PYTHON" -m "$@" --processes "$PROCESSES" >> "$STUDY/measure.log" 2>&1
}
finished() { # the folders of finished cells of the first seed
    for each in "$STUDY"/outcomes/*_seed-"${SEEDS[0]}".json; do
        [ -d "$STUDY/cells/$(basename "$each" .json)" ] && echo "$STUDY/cells/$(basename "$each" .json)"
    done
}

"$PYTHON" -m statetrace study run "$FILE" --out "$STUDY" --prepare || exit 1
SEEDS=($("$PYTHON" -c "
import json, sys
print(*dict.fromkeys(cell['levels']['seed'] for cell in json.load(open(sys.argv[1]))['cells']))" "$STUDY/study.json"))
limited "$TRAINING" "$PYTHON" -m statetrace study run "$FILE" --out "$STUDY" --jobs "$JOBS" > "$STUDY/study.log" 2>&1 &
measure calibration.trained --study "$STUDY" --trainer $! --out "$STUDY/trained.jsonl" --checkpoints 3 --earlier "${SEEDS[@]:0:2}"
measure calibration.stability $(finished | awk "NR % $STABLE == 0") --out "$STUDY/stability.jsonl"

"$PYTHON" - "$STUDY" "$OUT" "_seed-${SEEDS[0]}" "$WEIGHTS" << 'END'
import json, sys, tarfile
from pathlib import Path

from reproduction.export import export_run
from statetrace.runs import Run

study, out, first, most = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]) * 1e6
file = study / "trained.jsonl"
names = {json.loads(line)["name"] for line in file.read_text().splitlines()} if file.exists() else set()
newest = {cell.name: f"{study.name}/{cell.name}@{Run(cell).checkpoints()[-1][0]}" for cell in sorted(study.glob("cells/*")) if Run(cell).checkpoints()}
measured = [cell for cell, name in newest.items() if name in names and (study / "outcomes" / f"{cell}.json").exists()]
earlier = [path.stem for path in study.glob("outcomes/*.json") if path.stem not in newest]  # from another machine
with tarfile.open(out / f"{study.name}.tar.gz", "w:gz") as tar:
    for path in [study / "study.json", *study.glob("*.jsonl"), *study.glob("*.log"), *study.glob("failures/*.txt")]:
        tar.add(path, path.relative_to(study.parent))
    for cell in measured + earlier:
        tar.add(study / "outcomes" / f"{cell}.json", f"{study.name}/outcomes/{cell}.json")
size = 0
with tarfile.open(out / f"{study.name}-weights.tar", "w") as tar:
    for cell in measured:
        folder = study / "exported" / cell
        if cell.endswith(first) and size < most - 500_000:
            export_run(study / "cells" / cell, folder, 700_000)
            more = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
            if size + more < most and list(folder.rglob("*.safetensors")):
                tar.add(folder, f"{study.name}/cells/{cell}")
                size += more
print(f"{len(measured)} models measured, {len(names)} checkpoints; {size / 1e6:.1f} MB of weights")
END
tail -n 3 "$STUDY"/*.log
ls -l "$OUT"
wait
