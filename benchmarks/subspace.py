"""Exchange one direction of the residual stream between two runs, against pyvene.

The same interchange at the last position after every block of a GPT-2, with the same random basis
and pairs: pyvene with LowRankRotatedSpaceIntervention, one call per layer, and statetrace's
`Exchange`, which runs both inputs once and then one position per pair and layer. Two kinds of work:
evaluation (all layers, no gradients) and learning (one gradient of the cross entropy in the basis
per layer). Both run alternately in one process; medians are reported, and logits are compared.

    python benchmarks/subspace.py

pyvene is not a dependency of statetrace: `pip install pyvene==0.1.8`, which works with transformers
5. It is imported before anything is measured.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import pyvene
import torch
from torch import Tensor

from statetrace.interventions.exchange import Exchange
from statetrace.lenses.parts.subspaces import random_basis
from statetrace.models import ModelSpec, build
from statetrace.models.predict import evaluating
from statetrace.tasks.word_problem import word_problem

CLOSE = 1e-4


class Pyvene:
    """One intervention per layer."""

    def __init__(self, model: Any, bases: list[Tensor]) -> None:
        self.layers = []
        for layer, basis in enumerate(bases):
            intervenable = pyvene.IntervenableModel(
                {
                    "layer": layer,
                    "component": "block_output",
                    "unit": "pos",
                    "low_rank_dimension": basis.shape[1],
                    "intervention_type": pyvene.LowRankRotatedSpaceIntervention,
                },
                model=model,
            )
            (rotation,) = intervenable.interventions.values()
            rotation.rotate_layer.weight = basis  # orthonormal columns
            self.layers.append((intervenable, rotation.rotate_layer.parametrizations.weight))

    def logits(self, layer: int, base: Tensor, source: Tensor) -> Tensor:
        intervenable, _ = self.layers[layer]
        last = base.shape[1] - 1
        _, output = intervenable(
            {"input_ids": base},
            [{"input_ids": source}],
            {"sources->base": ([[[last]] * len(base)], [[[last]] * len(base)])},
        )
        return output.logits[:, -1]


def timed(work: Callable[[], list[Tensor]]) -> tuple[float, list[Tensor]]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def measure(layers: int, width: int, length: int, pairs: int, turns: int) -> None:
    task = word_problem("S3", length)
    model = build(
        ModelSpec("gpt2", layers=layers, width=width, heads=8, init_std=0.1),
        task.vocabulary.size,
        length + 1,
        0,
    ).eval()
    model.requires_grad_(False)
    base, source = (task.encode(task.sample(pairs, seed).actions) for seed in (0, 1))
    target = torch.arange(pairs) % task.group.order
    bases = [random_basis(width, 1, (0, layer), torch.device("cpu")) for layer in range(layers)]
    peer = Pyvene(model, bases)

    def evaluate_here() -> list[Tensor]:
        with evaluating(model):
            exchange = Exchange(model, base, source, length)
            return [exchange.logits(layer + 1, basis) for layer, basis in enumerate(bases)]

    def evaluate_there() -> list[Tensor]:
        with torch.no_grad():
            return [peer.logits(layer, base, source) for layer in range(layers)]

    def learn_here() -> list[Tensor]:
        gradients = []
        with evaluating(model):
            exchange = Exchange(model, base, source, length)
        for layer, basis in enumerate(bases):
            free = basis.clone().requires_grad_()
            logits = exchange.logits(layer + 1, torch.linalg.qr(free)[0])
            loss = torch.nn.functional.cross_entropy(logits, target)
            gradients += torch.autograd.grad(loss, [free])
        return gradients

    def learn_there() -> list[Tensor]:
        gradients = []
        for layer, (_, parameters) in enumerate(peer.layers):
            loss = torch.nn.functional.cross_entropy(peer.logits(layer, base, source), target)
            gradients += torch.autograd.grad(loss, list(parameters.parameters())[:1])
        return gradients

    print(f"GPT-2, {layers} layers, width {width}, length {length}, {pairs} pairs; CPU time")
    here, there = evaluate_here(), evaluate_there()  # warm up
    error = max((a - b).abs().max().item() for a, b in zip(here, there, strict=True))
    print(f"  largest difference between logits {error:.1e}   (target {CLOSE:g})")
    assert error < CLOSE
    works = {"evaluation": (evaluate_here, evaluate_there), "learning": (learn_here, learn_there)}
    for name, sides in works.items():
        times: list[list[float]] = [[], []]
        for _ in range(turns):
            for side, seconds in zip(sides, times, strict=True):
                seconds.append(timed(side)[0])
        ours, theirs = (1000 * statistics.median(seconds) for seconds in times)
        print(
            f"  {name}: statetrace {ours:.0f} ms, pyvene {pyvene_version()} {theirs:.0f} ms, "
            f"{theirs / ours:.1f} times as long"
        )


def pyvene_version() -> str:
    from importlib.metadata import version

    return version("pyvene")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    measure(6, 256, 50, 32, options.turns)


if __name__ == "__main__":
    main()
