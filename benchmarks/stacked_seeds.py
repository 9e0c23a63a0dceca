r"""Sixteen seeds of a width-64, 4-layer GPT-2 trained together, and one after the other.

Target: at least 3 times faster on two cores, at least 8 times on a GPU. Both do the same optimizer
steps on the same batches in one process of the same number of threads; evaluations and checkpoints
are left out, as they are the same for both. The gain is in call overhead, so the ratio falls with
the size of a batch: all sizes below are measured.

    python benchmarks/stacked_seeds.py             # some minutes
    python benchmarks/stacked_seeds.py --device cuda

How large a stack should be, without the comparison, and which kernels take its time:

    python benchmarks/stacked_seeds.py --device cuda --seeds 16 32 64 128 --shape 256x16 \
        --layers 5 --together-only --profile profile
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import profile

from statetrace.config.recipe import Recipe
from statetrace.runs import Run
from statetrace.training import setup
from statetrace.training.parallel import join
from statetrace.training.trainer import Stack, Trainer, stepper

SHAPES = ("8x8", "16x16", "32x16", "128x16")
"""Sequences per batch x length."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[16], help="sizes of stacks")
    parser.add_argument("--shape", nargs="+", default=SHAPES, help="batch x length")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--together-only", action="store_true")
    parser.add_argument("--profile", help="write the time by kernel to PROFILE-SEEDS.txt")
    options = parser.parse_args()
    print(
        f"{options.model} on {options.device}, {options.threads} threads; ms per step of all seeds"
    )
    for shape in options.shape:
        for seeds in options.seeds:
            batch, length = map(int, shape.split("x"))
            times = measure(seeds, batch, length, options)
            listed = ", ".join(f"{name} {1000 * spent:8.1f}" for name, spent in times.items())
            together = times["together"]
            gain = (
                "" if options.together_only else f"{times['apart'] / together:.1f} times faster: "
            )
            rate = f"{gain}{seeds / together:,.0f} models x steps a second"
            print(f"{seeds:>3} seeds, batch {shape:>6}: {listed}, {rate}", flush=True)


def measure(seeds: int, batch: int, length: int, options: argparse.Namespace) -> dict[str, float]:
    settings = {"model": options.model, "layers": options.layers, "width": 64, "heads": 4}
    settings |= {"length": length, "batch": batch, "sequences": 20_000, "steps": 1000}
    settings |= {"device": options.device, "threads": options.threads, "dropout": 0.0}
    recipes = [Recipe().override(settings | {"seed": seed}) for seed in range(seeds)]
    with join(options.device) as world, tempfile.TemporaryDirectory() as folder:
        first = setup.make_plan(recipes[0], world)
        plans = [first.with_recipe(recipe) for recipe in recipes]

        def trainers() -> list[Trainer]:
            return [Trainer(plan, Run(Path(folder)), setup.make_model(plan)) for plan in plans]

        stack = Stack(trainers())
        ways = {"together": stack.step}
        if not options.together_only:
            alone = [stepper([trainer]) for trainer in trainers()]

            def apart(index: int) -> None:
                for trainer in alone:
                    trainer.step(index)

            ways = {"apart": apart} | ways
        # alternating, so that other load on the machine affects both
        times: dict[str, list[float]] = {name: [] for name in ways}
        for repeat in range(options.repeats + 1):
            for name, do in ways.items():
                spent = seconds(do, repeat, options.device)
                if repeat:  # the first is warm-up
                    times[name].append(spent)
        if options.profile:
            with profile() as kernels:
                seconds(stack.step, options.repeats + 1, options.device)
            order = f"self_{'device' if options.device == 'cuda' else 'cpu'}_time_total"
            table = kernels.key_averages().table(order, row_limit=60, max_name_column_width=90)
            Path(f"{options.profile}-{seeds}.txt").write_text(table)
    return {name: min(values) for name, values in times.items()}


def seconds(do: Callable[[int], None], repeat: int, device: str, steps: int = 5) -> float:
    began = time.perf_counter()
    for index in range(repeat * steps, (repeat + 1) * steps):
        do(index)
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


if __name__ == "__main__":
    main()
