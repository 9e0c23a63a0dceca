"""Sixteen seeds of a width-64, 4-layer GPT-2 trained together, and one after the other.

Target: at least 3 times faster on two cores, at least 8 times on a GPU. Both do the same optimizer
steps on the same batches in one process of the same number of threads; evaluations and checkpoints
are left out, as they are the same for both. The gain is in call overhead, so the ratio falls with
the size of a batch: all sizes below are measured.

    python benchmarks/stacked_seeds.py             # some minutes
    python benchmarks/stacked_seeds.py --device cuda
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from statetrace.config.recipe import Recipe
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.parallel import join
from statetrace.training.trainer import Stack, Trainer, stepper

SEEDS = 16
SHAPES = ((8, 8), (16, 16), (32, 16), (128, 16))
"""(sequences per batch, length)"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--batches", type=int, default=len(SHAPES), help="how many of the batch sizes"
    )
    options = parser.parse_args()
    print(f"{SEEDS} seeds on {options.device}, {options.threads} threads; ms per step of all seeds")
    for batch, length in SHAPES[: options.batches]:
        apart, together = measure(batch, length, options)
        print(
            f"batch {batch:>3} x {length}: one after the other {1000 * apart:8.1f}, together "
            f"{1000 * together:8.1f}, {apart / together:.1f} times faster: "
            f"{SEEDS / together:,.0f} models x steps a second"
        )


def measure(batch: int, length: int, options: argparse.Namespace) -> tuple[float, float]:
    settings = {"model": "gpt2", "layers": 4, "width": 64, "heads": 4, "dropout": 0.0}
    settings |= {"length": length, "batch": batch, "sequences": 20_000, "steps": 1000}
    settings |= {"device": options.device, "threads": options.threads}
    recipes = [Recipe().override(settings | {"seed": seed}) for seed in range(SEEDS)]
    with join(options.device) as world, tempfile.TemporaryDirectory() as folder:
        first = setup.make_plan(recipes[0], world)
        plans = [first.with_recipe(recipe) for recipe in recipes]

        def trainers() -> list[Trainer]:
            return [Trainer(plan, Run(Path(folder)), setup.make_model(plan)) for plan in plans]

        alone = [stepper([trainer]) for trainer in trainers()]
        stack = Stack(trainers())

        def apart(index: int) -> None:
            for trainer in alone:
                trainer.step(index)

        # alternating, so that other load on the machine affects both
        times: dict[str, list[float]] = {"apart": [], "together": []}
        for repeat in range(options.repeats + 1):
            for name, do in (("apart", apart), ("together", stack.step)):
                spent = seconds(do, repeat, options.device)
                if repeat:  # the first is warm-up
                    times[name].append(spent)
    return min(times["apart"]), min(times["together"])


def seconds(do: Callable[[int], None], repeat: int, device: str, steps: int = 5) -> float:
    began = time.perf_counter()
    for index in range(repeat * steps, (repeat + 1) * steps):
        do(index)
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


if __name__ == "__main__":
    main()
