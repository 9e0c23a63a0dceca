"""One training step of Pythia-160M and GPT-2 on 128 sequences of 100 actions, in several ways.

`published` is the loop of the paper's code: float32, a head for the whole pretrained vocabulary.
The others have a head for the task alone and compute in bfloat16 with float32 weights: the
transformers model as it is, the same compiled, and the fused training step
(statetrace/training/fused) call by call and as one CUDA graph. All run in one process, one after
the other, on the same batches; the median of many steps counts.

Target, on one H200, Pythia-160M: 14 ms or less, at least 17 times the published step.

    python benchmarks/training_step.py                 # the table
    python benchmarks/training_step.py --profile       # and a profile of the fused step
    python benchmarks/training_step.py --curves 1000   # loss curves of three seeds, plain and fused
    python benchmarks/training_step.py --curves 1000 --kinds ours --seeds 6   # fused only
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from statetrace.config.settings import TrainingSettings
from statetrace.models import ModelSpec, build, parameter_count
from statetrace.models.predict import predict
from statetrace.tasks.word_problem import word_problem
from statetrace.training.evaluate import loss
from statetrace.training.fused import FusedStep
from statetrace.training.optimizer import adamw
from statetrace.training.parallel import World
from statetrace.training.setup import WORKSPACE, environment

PUBLISHED_VOCABULARY = {"pythia-160m": 50_304, "gpt2": 50_257}
SETTINGS = TrainingSettings()
BATCH, LENGTH = SETTINGS.batch, 100
TOGETHER = 10
"""Steps between two timings, since training does not wait for every step either."""


Batch = Callable[[], tuple[torch.Tensor, torch.Tensor]]
"""Creates tokens and targets when the step calls it."""


class Batches:
    """Batches of the task on the GPU, a function of (seed, number)."""

    def __init__(self, device: str, batch: int, length: int) -> None:
        self.task = word_problem("S3", length)
        sequences = self.task.sample(min(200_000, self.task.space), seed=0)
        self.split = self.task.split(sequences, device)
        self.size = batch

    def __call__(self, seed: int, number: int) -> Batch:
        def make() -> tuple[torch.Tensor, torch.Tensor]:
            batch = self.split.batch(seed, number, self.size)
            return batch.tokens, batch.targets

        return make


def make(name: str, vocabulary: int, seed: int, options: argparse.Namespace) -> Any:
    spec = ModelSpec(name, layers=options.layers, width=options.width, heads=options.heads)
    return build(spec, vocabulary, 2 * options.length + 1, seed).to(options.device).train()


def plain_step(
    model: Any, mixed: bool, device: str, fused: bool = True
) -> Callable[..., torch.Tensor]:
    """The usual loop around a transformers model, with the fused or the default AdamW."""
    optimizer = adamw(model, SETTINGS)
    if not fused:
        optimizer = torch.optim.AdamW(
            model.parameters(), SETTINGS.learning_rate, weight_decay=SETTINGS.weight_decay
        )
    autocast = torch.autocast(device, dtype=torch.bfloat16) if mixed else nullcontext()

    def step(index: int, batch: Batch) -> torch.Tensor:
        tokens, targets = batch()
        with autocast:
            logits = predict(model, tokens)
        value = loss(logits, targets)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.detach()

    return step


def our_step(model: Any, mixed: bool, graph: bool) -> Callable[..., torch.Tensor]:
    ours = FusedStep([model], SETTINGS, loss, torch.bfloat16 if mixed else torch.float32)
    ours.graphs &= graph

    def step(index: int, batch: Batch) -> torch.Tensor:
        with ours.prefetch():
            tokens, targets = batch()
        return ours(index, tokens[None], targets[None], SETTINGS.learning_rate, [0])[0]

    return step


def variants(name: str, options: argparse.Namespace) -> Iterator[tuple[str, Callable[..., Any]]]:
    """(name, step), one after the other so that only one model is in memory."""
    device, size = options.device, word_problem("S3", options.length).vocabulary.size
    mixed = device == "cuda"
    if not options.ours:
        full = PUBLISHED_VOCABULARY[name]
        yield (
            "published: float32, whole head",
            plain_step(make(name, full, 0, options), False, device, fused=False),
        )
        yield "bfloat16, task head", plain_step(make(name, size, 0, options), mixed, device)
        compiled = make(name, size, 0, options)
        compiled.compile(dynamic=False)
        yield "the same, compiled", plain_step(compiled, mixed, device)
        torch.compiler.reset()
        yield "program, call by call", our_step(make(name, size, 0, options), mixed, False)
    yield "program, one graph", our_step(make(name, size, 0, options), mixed, True)


def milliseconds(step: Callable[..., Any], batches: Batches, options: argparse.Namespace) -> float:
    for index in range(options.warmup):
        step(index, batches(0, index))
    times = []
    for start in range(options.warmup, options.warmup + options.steps, TOGETHER):
        _wait(options.device)
        began = time.perf_counter()
        for index in range(start, start + TOGETHER):
            step(index, batches(0, index))
        _wait(options.device)
        times.append((time.perf_counter() - began) / TOGETHER)
    return 1000 * statistics.median(times)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def table(options: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    for name in options.models:
        spec = ModelSpec(name, layers=options.layers, width=options.width, heads=options.heads)
        batches = Batches(options.device, options.batch, options.length)
        tokens = options.batch * (options.length + 1)
        blocks = parameter_count(spec, batches.task.vocabulary.size, 2 * options.length).blocks
        flops = 6.0 * blocks * tokens
        print(f"{name}: {options.batch} x {options.length + 1} tokens, {blocks:,} block parameters")
        first = None
        for what, step in variants(name, options):
            if options.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            spent = milliseconds(step, batches, options)
            peak = torch.cuda.max_memory_allocated() / 2**30 if options.device == "cuda" else 0.0
            first = first or spent
            print(
                f"  {what:<32} {spent:8.2f} ms {flops / spent / 1e9:6.0f} TFLOP/s {peak:6.1f} GiB"
                f" {first / spent:6.1f} x",
                flush=True,
            )
            rows.append(
                {
                    "model": name,
                    "variant": what,
                    "ms": round(spent, 2),
                    "tflops": round(flops / spent / 1e9),
                    "gib": round(peak, 1),
                    "ratio": round(first / spent, 1),
                }
            )
            if options.profile and what == "program, one graph":
                profile(step, batches)
            del step
    if options.out:
        where = environment(World(0, 1, torch.device(options.device)))
        about = {
            "hardware": where["hardware"]["device"],
            "versions": where["versions"] | {"triton": version("triton")},
            "date": time.strftime("%Y-%m-%d"),
        }
        Path(options.out).write_text(json.dumps([row | about for row in rows], indent=1))


def profile(step: Callable[..., Any], batches: Batches, steps: int = 5) -> None:
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for index in range(steps):
            step(index, batches(0, index))
        torch.cuda.synchronize()
    for row in profiler.key_averages().table(sort_by="cuda_time_total", row_limit=45).splitlines():
        print("   ", row[:60], row[-75:])


def curves(options: argparse.Namespace) -> None:
    """Losses of the first steps, by seed, of the plain compiled loop and of the fused step."""
    curves_by_variant: dict[str, list[list[float]]] = {}
    mixed = options.device == "cuda"
    for name in options.models:
        for seed in range(options.seeds):
            for what in options.kinds:
                batches = Batches(options.device, options.batch, options.length)
                model = make(name, batches.task.vocabulary.size, seed, options)
                step = our_step(model, mixed, True)
                if what == "plain":
                    model = make(name, batches.task.vocabulary.size, seed, options)
                    model.compile(dynamic=False)
                    step = plain_step(model, mixed, options.device)
                losses = [step(i, batches(seed, i)) for i in range(options.curves)]
                curves_by_variant.setdefault(f"{name} {what}", []).append(
                    torch.stack(losses).tolist()
                )
    for key, lines in curves_by_variant.items():
        means = [sum(line[-50:]) / 50 for line in lines]
        print(key, "mean loss of the last 50 steps, by seed:", [f"{m:.4f}" for m in means])
    if options.out:
        Path(options.out).write_text(json.dumps(curves_by_variant))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="+", default=["pythia-160m", "gpt2"])
    parser.add_argument("--layers", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--ours", action="store_true", help="only the fused training step")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--curves", type=int, default=0, metavar="STEPS")
    parser.add_argument("--seeds", type=int, default=3, help="of the loss curves")
    parser.add_argument(
        "--kinds", nargs="+", choices=["plain", "ours"], default=["plain", "ours"],
        help="of the loss curves",
    )  # fmt: skip
    parser.add_argument("--out", help="a JSON file for the table, or for the loss curves")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "error: --device 'cuda': torch sees no GPU here; on a CPU try a toy, such as --device "
            "cpu --layers 2 --width 64 --heads 2 --batch 4 --length 10"
        )
    os.environ.update(WORKSPACE)  # as training does
    if options.curves:
        curves(options)
    else:
        table(options)


if __name__ == "__main__":
    main()
