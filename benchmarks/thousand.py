"""A thousand small models, trained and judged: how long a study of them takes.

Targets, on one H200: 10 minutes for 1,000 models of 5 layers and width 64 (S3, length 16, 6,500
steps of 256), judging at most a quarter of it. The study is `recipes/studies/anchors.toml`: 1,020
models in six cells, trained as stacks and judged as stacks, with checkpoints, logs, lens results
and a verdict in every run folder.

    python benchmarks/thousand.py --out runs/anchors --jobs 6    # on a GPU, with the MPS server
    python benchmarks/thousand.py --seeds 3 --together 3 --set steps=400 batch=32 width=16 \
        layers=3 length=8                                        # a minute on one core

With several `--jobs`, one worker can judge while another trains. It also measures some of the
models again one by one, and fails if their evidence differs by more than 1e-5 or their verdicts
differ.
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

from statetrace.config.recipe import Recipe
from statetrace.models.device import pick_device
from statetrace.studies.evaluate import evaluate_checkpoints
from statetrace.studies.folder import Study, prepare_study
from statetrace.studies.worker import work

STUDY = Path(__file__).parents[1] / "recipes/studies/anchors.toml"
CLOSE = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="study folder to keep; by default a temporary one")
    parser.add_argument("--seeds", type=int, default=170, help="of each of the six cells")
    parser.add_argument("--together", type=int, default=85, help="models in a stack")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings")
    parser.add_argument("--jobs", type=int, default=1, help="workers side by side")
    parser.add_argument("--checked", type=int, default=3, help="models measured again, per cell")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(options, Path(temporary))


def measure(options: argparse.Namespace, temporary: Path) -> None:
    file = temporary / "study.toml"
    rules = f'extends = "{STUDY}"\nseeds = {options.seeds}\ntogether = {options.together}\n'
    file.write_text("\n".join((rules, "[settings]", *options.set)) + "\n")
    study = prepare_study(file, options.out or temporary / "study")
    began = time.perf_counter()
    command = [sys.executable, "-m", "statetrace", "study", "work", str(study.path)]
    command += ["--with-parent"]
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
    recipe = Recipe.of(dict(study.plan.cells[0].recipe))
    n, spent, trained = len(final), *seconds(study)
    device = str(pick_device(recipe.training.device))
    print(f"{n} models in {whole:.0f} s on {device}, workers: {options.jobs}")
    print(f"{n * recipe.training.steps / whole:,.0f} models x steps a second")
    print(f"training: {trained:.0f} s of the workers' time, {trained / spent:.0%}")
    print(f"judging:  {spent - trained:.0f} s, {(spent - trained) / n:.3f} s per model")
    print("verdicts:", dict(Counter(record["mechanism"] for record in final)))
    print(f"accuracy at least 0.98: {sum(record['accuracy'] >= 0.98 for record in final)}")
    check(study, options.checked, device)


def seconds(study: Study) -> tuple[float, float]:
    """Of all workers, and of these in training: sums over stacks, whose models all record the
    seconds of their stack."""
    stacks: dict[tuple[str, int], tuple[float, float]] = {}
    for cell in study.plan.cells:
        number = int(cell.levels["seed"]) // study.plan.settings.together
        trained = sum(session["seconds"] for session in study.run(cell).info["sessions"])
        spent = (study.outcome(cell) or {})["seconds"]
        key = cell.name.rpartition("seed")[0], number
        stacks[key] = max(stacks.get(key, (0.0, 0.0)), (spent, trained))
    return sum(s for s, _ in stacks.values()), sum(t for _, t in stacks.values())


def check(study: Study, models: int, device: str) -> None:
    """Measure the first models of every cell again, one by one."""
    began, checked = time.perf_counter(), 0
    for cell in study.plan.cells:
        if int(cell.levels["seed"]) >= models:
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
