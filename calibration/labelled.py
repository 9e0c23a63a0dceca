"""The labelled set: models whose algorithm is known, and the measures of their verdicts.

    python -m calibration --out FOLDER [--processes N]

compiles and measures a labelled set of models (all options varied, three lengths, noise up to where
accuracy falls below 98%) and models that have not learned the task; fits the weights on one half;
evaluates them on the other half and on the trained models given with --trained, which no weight was
fitted to; and writes measures.jsonl, weights.json and calibration.md.

Cost: about 5 s of one core per model, 225 models. Measures already in FOLDER are reused.
"""

from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.config.compile_spec import CompileSpec

LENGTHS = (8, 12, 16)
PER_CELL = 17
"""Models per algorithm and length."""

NOISE = {
    "sequential": 0.02,
    "associative": 0.04,
    "parity-associative": 0.005,
    "parallel": 0.0015,
}
"""Noise at which accuracy falls below 98% at length 8; it is halved where accuracy is lower."""

OTHERS = {
    "sequential": ("S4", "A4", "A5"),
    "associative": ("S4", "A4", "A5"),
    "parity-associative": ("S4", "S4", "S5"),
    "parallel": ("S4", "A4", "A4"),
}
"""Groups other than S3, for a quarter of the models."""

ACCURATE = 0.98


def specs(seed: int = 0) -> list[CompileSpec]:
    """The labelled set, in a fixed order."""
    rng = np.random.default_rng(seed)
    labelled = [
        _spec(algorithm, length, number, rng)
        for algorithm in NOISE
        for length in LENGTHS
        for number in range(PER_CELL)
    ]
    unlearned = CompileSpec(algorithm="parity-only")
    for number, length in enumerate(LENGTHS * 3):
        labelled.append(dataclasses.replace(unlearned, length=length, seed=number))
    # so much noise that the algorithm is lost
    labelled += [dataclasses.replace(spec, noise=0.3) for spec in labelled[::PER_CELL][:12]]
    return labelled


def _spec(algorithm: str, length: int, number: int, rng: np.random.Generator) -> CompileSpec:
    other_group = number % 4 == 3
    group = str(rng.choice(OTHERS[algorithm])) if other_group else "S3"
    if group in ("S5", "A5"):
        length = min(length, 8)  # 60 and 120 states are slow to probe
    scans = algorithm in ("sequential", "associative")
    marker = bool(rng.integers(2)) or (algorithm == "parallel" and other_group)
    counter = str(rng.choice(["selective", "average"])) if marker and not scans else None
    if algorithm == "parallel" and other_group:
        counter = "selective"
    # an average needs units for every position and count: no spare positions
    spare = bool(rng.integers(2)) and (scans or counter == "selective")
    return CompileSpec(
        group=group,
        algorithm=algorithm,
        length=length,
        notation=str(rng.choice(["moves", "receives"])),
        start_marker=marker,
        reach=None if spare else length,
        parity=str(rng.choice(["linear", "hidden"])) if scans else "linear",
        counter=counter,
        heads=int(rng.integers(1, 5)),
        before=int(rng.integers(2)),
        between=int(rng.integers(2)),
        after=int(rng.integers(2)),
        basis=str(rng.choice(["random", "random", "plain"])),
        noise=float(rng.choice([0.0, rng.uniform(0.1, 1.0)]) * NOISE[algorithm]),
        sharpness=float(rng.uniform(5, 20)),
        seed=int(rng.integers(1_000_000)),
    )


def label(spec: CompileSpec) -> str:
    if spec.algorithm == "parity-only" or spec.noise >= 0.3:
        return "unlearned"
    return spec.algorithm


def measured(spec: CompileSpec) -> dict[str, Any]:
    """Compile one model and collect the measures that its verdict would be based on."""
    import torch

    import statetrace as st
    from statetrace.lenses.compiled import check_compiled

    torch.set_num_threads(1)
    while True:
        model = st.compile(**dataclasses.asdict(spec))
        accuracy = check_compiled(model.model, spec, 300)[0]
        if label(spec) == "unlearned" or accuracy >= ACCURATE:
            break
        spec = dataclasses.replace(spec, noise=spec.noise / 2)
    row = {"spec": dataclasses.asdict(spec), "label": label(spec), "accuracy": accuracy}
    return row | summarised(model.evidence(), model.group)


def summarised(results: Any, group: Any) -> dict[str, Any]:
    """What weights are fitted to: the quick verdict and the measures of the full one."""
    from statetrace.mechanisms.cutoff_verdict import read_cutoffs
    from statetrace.mechanisms.evidence import NEEDED, Evidence
    from statetrace.mechanisms.verdict import measure_distances

    fast = read_cutoffs(results["generalization"])
    if not all(lens in results for lens in NEEDED):
        return {"fast": fast, "measures": None}
    return {"fast": fast, "measures": measure_distances(Evidence.of(results, group), group)}


def make(folder: Path, processes: int, limit: int | None = None) -> list[dict[str, Any]]:
    """Measure the models that FOLDER/measures.jsonl lacks; it has one line per model."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "measures.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {row["number"] for row in rows}
    todo = [(i, spec) for i, spec in enumerate(specs()) if i not in done][:limit]
    with ProcessPoolExecutor(processes) as pool, file.open("a") as log:
        futures = {pool.submit(measured, spec): i for i, spec in todo}
        for future in as_completed(futures):
            try:
                row = {"number": futures[future]} | future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            rows.append(row)
            log.write(json.dumps(row) + "\n")
            log.flush()
    return sorted(rows, key=lambda row: int(row["number"]))
