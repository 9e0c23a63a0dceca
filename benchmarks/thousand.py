r"""A thousand small models, trained and judged: how long a study of them takes.

Targets, on one H200: 10 minutes for 1,000 models of 5 layers and width 64 (S3, length 16, 6,500
steps of 256), judging at most a quarter of it. The study is an ordinary one (`statetrace study`):
seeds of four cells, trained as stacks and judged as stacks, with checkpoints, logs, lens results
and a verdict in every run folder.

    python benchmarks/thousand.py --out runs/thousand      # on a GPU
    python benchmarks/thousand.py --models 16 --together 4 --steps 400 --batch 32 --width 16 \
        --layers 3 --length 8 --device cpu                 # a minute on one core

With `--jobs 2`, one worker can judge while the other trains; on a GPU, start the MPS server first.
It also measures some of the models again one by one, and fails if their evidence differs by more
than 1e-5 or their verdicts differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from statetrace.models.device import pick_device
from statetrace.studies.evaluate import evaluate_checkpoints
from statetrace.studies.folder import Study, prepare_study
from statetrace.studies.worker import work

STUDY = """\
seeds = {seeds}
early = {steps}
verdict = "standard"
together = {together}

[settings]
group = "S3"
length = {length}
layers = {layers}
width = {width}
heads = 4
dropout = 0.0
init_std = 0.06
steps = {steps}
batch = {batch}
sequences = {sequences}
learning_rate = 3e-3
schedule = "trapezoid"
warmup = {warmup}
grow = 0.5
beta2 = 0.99
clip = 1.0
weight_decay = 0.1
threads = {threads}
device = "{device}"
log_every = 100
evaluate_every = {steps}
evaluate_sequences = 1000
checkpoint_every = {steps}

[grid]
model = ["gpt2", "pythia"]
start_marker = [true, false]
"""
CELLS = 4
CLOSE = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="study folder to keep; by default a temporary one")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--together", type=int, default=125, help="models in a stack")
    parser.add_argument("--steps", type=int, default=6500)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1, help="workers side by side")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--checked", type=int, default=3, help="models measured again, per cell")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(options, Path(temporary))


def measure(options: argparse.Namespace, temporary: Path) -> None:
    file = temporary / "study.toml"
    device = pick_device(options.device)
    settings = vars(options) | {"seeds": -(-options.models // CELLS), "device": device}
    settings["warmup"] = min(200, options.steps // 4)
    settings["sequences"] = min(200_000, 6**options.length)
    file.write_text(STUDY.format(**settings))
    study = prepare_study(file, options.out or temporary / "study")
    began = time.perf_counter()
    command = [sys.executable, "-m", "statetrace", "study", "work", study.path, "--with-parent"]
    others = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(options.jobs - 1)]
    work(study)
    if any(other.wait() for other in others):
        sys.exit("a worker failed")
    whole = time.perf_counter() - began
    outcomes = [study.outcome(cell) for cell in study.plan.cells]
    final = [outcome["final"] for outcome in outcomes if outcome and "final" in outcome]
    failed = [outcome["why"] for outcome in outcomes if outcome and "why" in outcome]
    if failed:
        sys.exit(
            f"{len(failed)} of {len(outcomes)} models failed, the first one because {failed[0]}"
        )
    n, spent, trained = len(final), options.jobs * whole, seconds_of_training(study)
    print(f"{n} models in {whole:.0f} s on {device}")
    print(f"{n * options.steps / whole:,.0f} models x steps a second; of the workers' time:")
    print(f"training: {trained:.0f} s, {trained / spent:.0%}")
    print(f"judging:  {spent - trained:.0f} s, {(spent - trained) / n:.3f} s per model")
    print("verdicts:", dict(Counter(record["mechanism"] for record in final)))
    print(f"accuracy at least 0.98: {sum(record['accuracy'] >= 0.98 for record in final)}")
    check(study, options.checked, str(device))


def seconds_of_training(study: Study) -> float:
    """The sum over stacks, whose runs all record the seconds of their stack."""
    stacks: dict[tuple[str, int], float] = {}
    for cell in study.plan.cells:
        number = int(cell.levels["seed"]) // study.plan.settings.together
        seconds = sum(session["seconds"] for session in study.run(cell).info["sessions"])
        key = cell.name.rpartition("seed")[0], number
        stacks[key] = max(stacks.get(key, 0.0), seconds)
    return sum(stacks.values())


def check(study: Study, models: int, device: str) -> None:
    """Measure the first models of every cell again, one by one."""
    began, checked = time.perf_counter(), 0
    for cell in study.plan.cells:
        if cell.levels["seed"] >= models:
            continue
        together: dict[str, Any] = (study.outcome(cell) or {})["final"]
        step = together["step"]
        (alone,) = evaluate_checkpoints([study.run(cell)], step, device, "standard", store=False)
        if not close(alone, together):
            sys.exit(f"{cell.name} differs: {alone} alone, {together} together")
        checked += 1
    seconds = (time.perf_counter() - began) / checked
    print(f"{checked} models one by one: the same, {seconds:.2f} s each")


def close(value: Any, other: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(close(value[key], other[key]) for key in value)
    if isinstance(value, float):
        return abs(value - other) <= CLOSE
    return bool(value == other)


if __name__ == "__main__":
    main()
