"""Does the verdict depend on the seed of the analysis, or on the length that is declared?

    python -m calibration.stability MODEL [MODEL ...] --out FILE [--study STUDY] [--compiled STEP]

measures every model with ten analysis seeds at three lengths (the longest that it solves, 3/4 and
1/2 of it) and appends a row for each. With --compiled it also measures every STEP-th fresh compiled
model. Cost: about 30 s of one core per model. `flips` counts verdicts that rule out the mechanism
that most verdicts on the model allow.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import statetrace as st
from calibration import compiled
from calibration.fitting import candidates
from calibration.measuring import Row, summary
from calibration.trained import finished, name_of
from statetrace.config.compile_spec import CompileSpec
from statetrace.lenses.depth import depth
from statetrace.lenses.generalization import generalization
from statetrace.lenses.specs import DepthSpec, GeneralizationSpec
from statetrace.mechanisms.mastery import LEARNED, has_learned, solved_length
from statetrace.mechanisms.mechanism_map import Weights

SEEDS, SHARES = 10, (1.0, 0.75, 0.5)


def measured(source: str | CompileSpec, step: int | None = None) -> list[Row]:
    """Rows of one model; none if it has not learned."""
    import torch

    torch.set_num_threads(1)
    if isinstance(source, CompileSpec):
        loaded, name = st.compile(**dataclasses.asdict(source)).loaded, f"compiled {source.seed}"
    else:
        loaded, name = st.load(source, step=step, device="cpu").loaded, name_of(source, step)
    general = generalization(loaded.model, loaded.task)
    if not has_learned(general):
        return []
    longest = solved_length(general)
    lengths = sorted({n for share in SHARES if (n := round(share * longest)) >= LEARNED})
    rows = []
    for length in lengths:
        task = loaded.task.at_length(length)
        for seed in range(SEEDS):
            spec = GeneralizationSpec(seed=seed, bootstrap=1)
            results = {"generalization": generalization(loaded.model, task, spec)}
            if has_learned(results["generalization"]):
                results["depth"] = depth(loaded.model, task, DepthSpec(seed=seed))
            about = {"name": name, "group": task.group.name, "length": length, "seed": seed}
            rows.append(about | summary(results))
    return rows


def flips(rows: Sequence[Row], weights: Weights | None = None) -> dict[str, Any]:
    """How many verdicts are undecided, and how many flip: rule out the mechanism that most verdicts
    on their model allow."""
    models: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in rows:
        models[row["name"]].append(candidates(row, weights))
    flips: list[tuple[str, ...]] = []
    for verdicts in models.values():
        usual = Counter(name for names in verdicts for name in names).most_common(1)[0][0]
        flips += [names for names in verdicts if usual not in names]
    undecided = [sum(len(names) > 1 for names in verdicts) for verdicts in models.values()]
    return {
        "models": len(models),
        "verdicts": len(rows),
        "flips": len(flips),
        "decided_flips": sum(len(names) == 1 for names in flips),
        "undecided": sum(undecided),
        "models_undecided": sum(map(bool, undecided)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure models with several seeds and lengths.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--study", help="a study folder: its finished cells")
    parser.add_argument("--compiled", type=int, metavar="STEP")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    jobs: list[Any] = finished(arguments.models, arguments.study, 1)
    lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    done = {json.loads(line)["name"] for line in lines}
    jobs = [job for job in jobs if name_of(*job) not in done]
    if arguments.compiled:
        chosen = compiled.specs(1)[:: 4 * arguments.compiled]
        jobs += [(spec, None) for spec in chosen if f"compiled {spec.seed}" not in done]
    with ProcessPoolExecutor(arguments.processes) as pool, arguments.out.open("a") as file:
        futures = {pool.submit(measured, *job): job for job in jobs}
        for future in as_completed(futures):
            try:
                file.writelines(json.dumps(row) + "\n" for row in future.result())
            except Exception as error:
                print(f"{futures[future]}: {error}", flush=True)
            file.flush()


if __name__ == "__main__":
    main()
