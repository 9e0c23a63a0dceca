#!/bin/bash
# Runs that need a GPU, from a plain source tree; docs/reproduction/README.md lists what they provide.
#
#   bash reproduction/gpu_runs.sh paper     Pythia-160M, seed SEED, to step 20,000: weights stay in runs/, 10 minutes on an H200
#   bash reproduction/gpu_runs.sh small     small, small-regimes, small-groups and tiny-text: 74 models
#
# The small studies in results/ were trained by commits f8766a60739c and 4bd7a5c2d351. Train them again to see whether later code
# gives the same models, or with a larger WEIGHTS to keep the weights of width 128 and 256.
#
# results/pythia-160m-20k-parity-associative and its -released twin are SEED=5, from a run that was trained on to step 28,000
# with a checkpoint every 2,000 steps; results/pythia-160m-switch holds its lenses at five of them.
#
# Both continue where they stopped. `small` trains JOBS stacks of seeds side by side, in the order of STACKS, and stops after
# MINUTES with checkpoints. OUT/STUDY.tar.gz has every model as soon as it is evaluated: tables, logs, run.json, and bf16 weights
# of up to WEIGHTS bytes (width 64). Set COMMIT if the source tree has no git.
#   PYTHON=python3 COMMIT=$(git rev-parse --short=12 HEAD) MINUTES=8 OUT=packed bash reproduction/gpu_runs.sh small
#   TOY=1 bash reproduction/gpu_runs.sh paper|small      the same commands at toy size, on a CPU, into /tmp
# Afterwards compare the unpacked results.csv with those in results/. results/README.md says which training is kept.
set -euo pipefail
export PYTHONPATH=$PWD OMP_NUM_THREADS=1
[ -x .venv/bin/python ] && PYTHON=${PYTHON:-.venv/bin/python}
PYTHON=${PYTHON:-python3} SEED=${SEED:-0} JOBS=${JOBS:-8} WEIGHTS=${WEIGHTS:-1000000}
AT=able TRAIN="" ROWS="probing.train=10000 probing.test=99000" PAIRS=200 STUDIES=statetrace/recipes/studies
if [ -n "${TOY:-}" ]; then
    RUNS=${TOY_FOLDER:-/tmp/statetrace-toy}/runs RESULTS=${TOY_FOLDER:-/tmp/statetrace-toy}/results
    TRAIN="--layers 2 --width 16 --heads 2 --length 6 --batch 32 --evaluate-sequences 100 --device cpu --learning-rate 3e-3 --steps 200"
    ROWS="probing.train=400 probing.test=500 probing.subsets=2" PAIRS=20 AT=4
    mkdir -p "$RUNS" && cp -r statetrace/recipes "$RUNS" && STUDIES=$RUNS/recipes/studies
    sed -i 's/^early = .*/early = 10\nverdict = "quick"/; s/^seeds = .*/seeds = 2/; s/^warmup = .*/warmup = 5/; s/^batch = .*/batch = 8/
        s/^layers = 6/layers = 2/; s/^length = [0-9][0-9]*/length = 4/; s/length = \(5\|10\),/length = 3,/
        s/^steps = 10000/steps = 20\ndevice = "cpu"/; s/\(steps\|every\|sequences\) = [0-9]*00/\1 = 20/' \
        "$STUDIES"/{small,small-regimes,small-groups,tiny-text}.toml "$RUNS/recipes/demo.toml"
fi
RUNS=${RUNS:-runs} RESULTS=${RESULTS:-results} OUT=${OUT:-$RUNS/packed}
tool() { "$PYTHON" -m statetrace "$@"; }
set_all() { for each in "$@"; do printf -- '--set %s ' "$each"; done; }

paper() {
    local run=$RUNS/pythia-160m-seed-$SEED name=$RESULTS/pythia-160m-seed-$SEED
    # 20,000 of 140,625 steps, at 14 ms each: trained further, it may become associative (docs/findings/mechanism-switch.md)
    timeout --signal=INT "${MINUTES:-5}m" "$PYTHON" -m statetrace train recipes/paper/s3-pythia-160m.toml --seed "$SEED" \
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

# One worker per stack: cells that differ in their seed alone, so that no two workers share a stack. tiny-text needs no GPU.
STACKS=${STACKS:-"tiny-text:scratch small:{gpt2,pythia}_{64,128,256}
small-regimes:gpt2_256_{topic-1,topic-2,control,parity,auxiliary-parity,auxiliary-action,length} small-groups:gpt2_256_{S4,A5,Z60,S5}"}

stack() { # STUDY:CELL, without the seed
    local study=${1%%:*} cells=()
    for seed in 0 1 2 3 4 5; do
        grep -q "\"${1#*:}_seed-$seed\"" "$RUNS/$study/study.json" && cells+=(--cell "${1#*:}_seed-$seed")
    done
    exec "$PYTHON" -m statetrace study work "$RUNS/$study" "${cells[@]}"
}

declare -A PACKED
pack() { # studies in which more models have finished since the last call
    for study in "$@"; do
        local finished=$(ls "$RUNS/$study/outcomes" 2> /dev/null | wc -l)
        [ "$finished" -gt "${PACKED[$study]:-0}" ] || continue
        PACKED[$study]=$finished
        "$PYTHON" -m reproduction.export "$RUNS/$study" --out "$RUNS/exported/$study" --weights "$WEIGHTS" --commit "${COMMIT:-}" &&
            tar -czf "$RUNS/$study.tar.gz" -C "$RUNS/exported" "$study" && mv "$RUNS/$study.tar.gz" "$OUT" || true
    done
}

small() {
    local deadline=$((SECONDS + 60 * ${MINUTES:-60})) queue=($(eval echo $STACKS))
    local studies=($(printf '%s\n' "${queue[@]%%:*}" | uniq))
    mkdir -p "$RUNS/logs" "$OUT"
    for study in "${studies[@]}"; do
        tool study "$STUDIES/$study.toml" --out "$RUNS/$study" --prepare
    done
    while [ ${#queue[@]} -gt 0 ] || [ -n "$(jobs -rp)" ]; do
        if [ ${#queue[@]} -gt 0 ] && [ "$(jobs -rp | wc -l)" -lt "$JOBS" ]; then
            stack "${queue[0]}" > "$RUNS/logs/${queue[0]}" 2>&1 &
            queue=("${queue[@]:1}")
            continue
        fi
        if [ $SECONDS -ge $((deadline - 15 * ${MINUTES:-60})) ]; then # a stack that starts now would only slow the others
            queue=()
        fi
        if [ $SECONDS -ge $deadline ]; then # a worker writes a checkpoint, or ends its evaluation
            kill -s "$([ $SECONDS -ge $((deadline + 75)) ] && echo KILL || echo TERM)" $(jobs -rp) 2> /dev/null || true
        fi
        pack "${studies[@]}"
        sleep 1
    done
    pack "${studies[@]}"
    tail -n 2 "$RUNS"/logs/*
    ls -l "$OUT"
}

"${1:?paper or small}"
