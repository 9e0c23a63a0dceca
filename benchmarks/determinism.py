"""Does the same seed give equal results again, and on other threads, devices and versions of torch?

Computes data, initial weights, lens results and verdicts of two bundled models, and a short
training. Prints a digest of each and writes all numbers as JSON. `--compare` prints which rows of
such files are equal byte for byte, and how much the others differ.

    python benchmarks/determinism.py --device cpu --threads 1 --out one.json    # 20 s
    python benchmarks/determinism.py --compare one.json other.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

import statetrace as st
from statetrace.config.recipe import Recipe
from statetrace.lenses.result import LensResult
from statetrace.models import build
from statetrace.models.from_recipe import make_task
from statetrace.models.spec import ModelSpec
from statetrace.models.threads import using_threads
from statetrace.runs import Run
from statetrace.tasks.batch import batch_rows

MODELS = ("zoo:s3-parallel", "zoo:s3-rotary")
LENSES = ("generalization", "depth", "patching", "probing", "attention", "geometry")
TRAINING = {
    "group": "S3", "length": 8, "model": "gpt2", "layers": 2, "width": 32, "heads": 4,
    "steps": 60, "batch": 64, "sequences": 20_000, "learning_rate": 3e-3, "log_every": 1,
    "evaluate_every": 30, "checkpoint_every": 60, "evaluate_sequences": 500,
    "precision": "float32", "seed": 0,
}  # fmt: skip
PLAIN = {"program": False, "compile": False}
"""The same training step on every device; on CUDA the fused step is used in a second training."""

Value = str | list[float | str | None]
Rows = Iterator[tuple[str, Value]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--steps", type=int, default=TRAINING["steps"])
    parser.add_argument("--out", type=Path, help="write all numbers to a file")
    parser.add_argument(
        "--compare", type=Path, nargs="+", help="files of --out; the first is the reference"
    )
    options = parser.parse_args()
    if options.compare:
        first, *others = (json.loads(file.read_text()) for file in options.compare)
        for other in others:
            compare(first, other)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # otherwise lenses choose the fastest number
    table: dict[str, Any] = {"machine": machine(options)}
    with using_threads(options.threads):
        for rows in (data(), lenses(options.device), training(options)):
            for name, value in rows:
                table[name] = value
                print(f"{name}: {digest(json.dumps(value).encode())[:12]}", flush=True)
                if options.out:
                    options.out.write_text(json.dumps(table))


def machine(options: argparse.Namespace) -> str:
    gpu = torch.cuda.get_device_name() if options.device.startswith("cuda") else ""
    parts = (
        gpu or f"{cpu()}, {options.threads} threads", f"torch {torch.__version__}",
        f"numpy {np.__version__}", f"transformers {transformers.__version__}",
        f"Python {platform.python_version()}",
    )  # fmt: skip
    return ", ".join(parts)


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def data() -> Rows:
    """Sequences, the order of batches, and initial weights."""
    for group, length in (("S3", 16), ("S5", 100), ("A4xZ5", 24)):
        task = make_task(Recipe().override({"group": group, "length": length}))
        for part, rows in zip(("train", "held out"), task.splits(5000, 0.1, seed=0), strict=True):
            yield f"{group} {length}, {part}", digest(rows.actions, rows.states)
    yield "rows of batches", digest(*(batch_rows(1000, 64, 0, index) for index in range(50)))
    for family in ("gpt2", "pythia", "llama"):
        model = build(ModelSpec(family, layers=2, width=32, heads=4), 7, 17, seed=0)
        weights = model.state_dict()
        arrays = [weights[name].numpy() for name in sorted(weights)]
        yield f"initial weights of {family}", digest(*arrays)


def lenses(device: str) -> Rows:
    for name in MODELS:
        model = st.load(name, device=device)
        for lens in LENSES:
            yield f"{name}, {lens}", numbers(model.analyze([lens])[lens])
        verdict = model.verdict()
        yield f"{name}, verdict", [verdict.mechanism]
        yield f"{name}, probabilities", [p for _, p in sorted(verdict.probabilities.items())]


def training(options: argparse.Namespace) -> Rows:
    """Losses, accuracies and final weights of a short training."""
    ways: dict[str, Mapping[str, Any]] = {"training": PLAIN}
    if options.device.startswith("cuda"):
        ways["training, fused"] = {}
    for way, changes in ways.items():
        settings = TRAINING | changes | {"device": options.device, "steps": options.steps}
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            st.train(out=out, threads=options.threads, **settings)
            run = Run(out)
            yield f"{way}: losses", [record["loss"] for record in run.metrics("training")]
            yield f"{way}: accuracies", run.evaluations()[-1]["accuracy_by_length"]["state"]
            weights = load_file(run.checkpoints()[-1][1] / "model.safetensors")
            yield (
                f"{way}: weights",
                np.concatenate([weights[name].ravel() for name in sorted(weights)]).tolist(),
            )


def numbers(result: LensResult) -> Value:
    """The table of a lens, column by column, and its arrays."""
    table = [value for name in result.columns for value in result.columns[name]]
    arrays = [result.arrays[name].ravel().tolist() for name in sorted(result.arrays)]
    return table + [value for array in arrays for value in array]


def digest(*parts: bytes | np.ndarray) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
    return sha.hexdigest()


def compare(first: dict[str, Any], other: dict[str, Any]) -> None:
    """Print how two tables differ, row by row."""
    print(f"\n{first['machine']}\n{other['machine']}\n\n| | largest difference |\n|---|---|")
    rows = [name for name in first if name != "machine"]
    for name in rows:
        print(f"| {name} | {difference(first[name], other.get(name))} |")
    equal = sum(same(first[name], other.get(name)) for name in rows)
    print(f"\n{equal} of {len(rows)} rows are equal byte for byte")


def difference(value: Value, other: Value | None) -> str:
    if other is None:
        return "missing"
    if same(value, other):
        return "equal"
    if isinstance(value, str) or len(value) != len(other):
        return "different"
    pairs = [(a, b) for a, b in zip(value, other, strict=True) if not same(a, b)]
    if not all(isinstance(number, float | int) for pair in pairs for number in pair):
        return f"different: {pairs[0]}"
    return f"{max(abs(a - b) for a, b in pairs):.1e}, in {len(pairs):,} of {len(value):,} numbers"


def same(value: object, other: object) -> bool:
    """Equal; NaN counts as equal to itself."""
    return json.dumps(value) == json.dumps(other)


if __name__ == "__main__":
    main()
