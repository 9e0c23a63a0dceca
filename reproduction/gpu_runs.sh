#!/bin/bash
# What results/ still lacks and a GPU can bring; docs/reproduction/README.md says which claims wait for it.
#
#   bash reproduction/gpu_runs.sh paper     Pythia-160M, seed SEED, until step 20,000: weights stay in runs/, 10 minutes on an H200
#   bash reproduction/gpu_runs.sh small     three small studies again, with weights, curves and commits; about 40 minutes
#
# results/pythia-160m-20k-parity-associative and its -released twin are SEED=5, from a run that was trained on to step 28,000
# with a checkpoint every 2,000 steps; results/pythia-160m-switch holds its lenses at five of them.
#   TOY=1 bash reproduction/gpu_runs.sh paper|small     the same commands at toy size, on a CPU, into /tmp
#
# All commands continue where they stopped. Afterwards: make reproduce-report, and commit results/ once.
set -euo pipefail
PYTHON=${PYTHON:-.venv/bin/python}
RUNS=${RUNS:-runs} RESULTS=${RESULTS:-results}
MINUTES=${MINUTES:-5} AT=able TRAIN="" ROWS="probing.train=10000 probing.test=99000" PAIRS=200
FOLDER=recipes/studies
STUDIES="small small-regimes small-groups" SEED=${SEED:-0}
if [ -n "${TOY:-}" ]; then
    RUNS=${TOY_FOLDER:-/tmp/statetrace-toy}/runs RESULTS=${TOY_FOLDER:-/tmp/statetrace-toy}/results
    TRAIN="--layers 2 --width 16 --heads 2 --length 6 --batch 32 --evaluate-sequences 100 --device cpu --learning-rate 3e-3 --steps 200"
    ROWS="probing.train=400 probing.test=500 probing.subsets=2" PAIRS=20 AT=4 STUDIES=toy FOLDER=$RUNS
    mkdir -p "$RUNS"
    sed 's/^steps = 2000/steps = 100/; s/^warmup = 100/warmup = 10/; s/^seeds = 3/seeds = 1/; s/^early = 1000/early = 50/; s/ steps = 300/ steps = 50/' \
        recipes/studies/toy.toml > "$RUNS/toy.toml"
fi
tool() { "$PYTHON" -m statetrace "$@"; }
set_all() { for each in "$@"; do printf -- '--set %s ' "$each"; done; }

paper() {
    local run=$RUNS/pythia-160m-seed-$SEED name=$RESULTS/pythia-160m-seed-$SEED
    # 20,000 of 140,625 steps, at 14 ms each: trained further, it may become associative (docs/findings/mechanism-switch.md)
    timeout --signal=INT "${MINUTES}m" "$PYTHON" -m statetrace train recipes/paper/s3-pythia-160m.toml --seed "$SEED" \
        --checkpoint-every 10000 --keep 1 --out "$run" --resume $TRAIN || [ -d "$run/checkpoints" ]
    # the lenses at the longest length that the model solves, pairs half and half, with per-pair values
    tool analyze "$run" --thorough --at-length $AT $(set_all patching.balanced=true patching.pairs=$PAIRS)
    tool verdict "$run"
    "$PYTHON" -m reproduction.export "$run" --out "$name"
    # the released protocol: all positions, 1,000 rows per subset, tested on 99,000; logits of all states
    tool analyze "$run" --thorough --at-length $AT --only patching,probing $(set_all patching.balanced=true patching.logits=true \
        patching.grids=prefix-substitution-resid patching.pairs=$PAIRS probing.positions=all probing.controls= $ROWS)
    "$PYTHON" -m reproduction.export "$run" --out "$name-released"
}

small() {
    for study in $STUDIES; do
        tool study "$FOLDER/$study.toml" --out "$RUNS/$study"
        "$PYTHON" -m reproduction.export "$RUNS/$study" --out "$RESULTS/$study"
    done
}

"${1:?paper or small}"
