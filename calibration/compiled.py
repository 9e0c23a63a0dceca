"""Compiled models of the verdict's algorithms, with all options varied, and of models that have not
learned the task; others.py has those that run none of the algorithms, or two.

    python -m calibration --measure [--processes N]

measures those that calibration/data lacks. Cost: about 3 s of one core per model.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from calibration.fitting import UNLEARNED
from calibration.measuring import Row, summary
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
        return UNLEARNED
    return spec.algorithm


def measured(spec: CompileSpec, label: str) -> Row:
    """Compile a model, with half the noise as long as it is inaccurate, and measure it."""
    import torch

    import statetrace as st
    from statetrace.lenses.compiled import check_compiled

    torch.set_num_threads(1)
    while True:
        model = st.compile(**dataclasses.asdict(spec))
        accuracy = check_compiled(model.model, spec, 300)[0]
        if label == UNLEARNED or accuracy >= ACCURATE:
            break
        spec = dataclasses.replace(spec, noise=spec.noise / 2)
    row = {"label": label, "spec": dataclasses.asdict(spec), "group": model.group.name}
    return row | {"length": model.length, "accuracy": accuracy} | summary(model.evidence())


def measure(file: Path, specs: Sequence[tuple[CompileSpec, str]], processes: int) -> None:
    """Append rows of the models that the file lacks."""
    file.parent.mkdir(exist_ok=True)
    lines = file.read_text().splitlines() if file.exists() else []
    done = {json.loads(line)["number"] for line in lines}
    todo = [number for number in range(len(specs)) if number not in done]
    with ProcessPoolExecutor(processes) as pool, file.open("a") as log:
        futures = {pool.submit(measured, *specs[number]): number for number in todo}
        for future in as_completed(futures):
            log.write(json.dumps({"number": futures[future]} | future.result()) + "\n")
            log.flush()


def sets() -> dict[str, list[tuple[CompileSpec, str]]]:
    """By file: models that weights are fitted to, and fresh ones of another seed."""
    from calibration import others

    circuits = [(spec, label(spec)) for spec in [*specs(), *specs(1)[::4]]]
    none = [(spec, others.label(spec)) for spec in [*others.specs(), *others.specs(1)[::2]]]
    fresh = [(spec, label(spec)) for spec in specs(2)[::3]]
    fresh_none = [(spec, others.label(spec)) for spec in others.specs(2)]
    return {
        "compiled": circuits,
        "others": none,
        "fresh-compiled": fresh,
        "fresh-others": fresh_none,
    }
