"""The whole prefix-substitution grid against nnsight and against plain batched forward passes.

(a) nnsight, one trace per pair and cell, as the paper's published code does; (b) hooks, one full
forward pass per cell with all pairs in one batch. Neither reuses anything, so each of their cells
costs the same: a sample spread over the grid is timed and scaled, while statetrace is timed on the
full grid. All run alternately in one process; medians are reported, and logits are compared.

Targets, on two cores (6 layers, width 256, length 50, 16 pairs): 12 times (a), 3.5 times (b). On a
GPU (Pythia-160M, length 100, 200 pairs): the 13 x 100 grid in 60 s (H200), 100 times (a).

    python benchmarks/patching.py
    python benchmarks/patching.py --gpu

nnsight is not a dependency of statetrace: `pip install nnsight==0.8.1` for (a). Without it, (a) is
one plain forward pass with hooks per pair and cell, and is called that.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from statetrace.interventions.capture import capture, overwrite
from statetrace.interventions.grid import patch_grid
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import GridSpec
from statetrace.lenses.parts.pairs import draw_pairs
from statetrace.models import ModelSpec, anatomy, build
from statetrace.tasks.word_problem import word_problem

NNSIGHT = importlib.util.find_spec("nnsight") is not None
SINGLE = "nnsight, a trace per pair and cell" if NNSIGHT else "plain forward per pair and cell"


@dataclass(frozen=True)
class Case:
    """One model and grid.

    Attributes:
        single, batched: how many (pair, cell) of (a) and cells of (b) are timed in a turn.
        targets: least ratios to (a) and (b), and most seconds; None where there is none.
    """

    spec: ModelSpec
    length: int
    pairs: int
    device: str
    turns: int
    single: int
    batched: int
    targets: tuple[float | None, float | None, float | None]


CPU = [
    Case(ModelSpec(name, layers=6, width=256, heads=8), 50, 16, "cpu", 3, 60, 30, (12, 3.5, None))
    for name in ("gpt2", "pythia")
]
GPU = [Case(ModelSpec("pythia-160m"), 100, 200, "cuda", 1, 100, 20, (100, None, 60))]


class Peers:
    """The two other ways to compute one cell of a prefix grid."""

    def __init__(self, model: Any, clean: Tensor, corrupted: Tensor) -> None:
        self.model, self.corrupted = model, corrupted
        self.sites = [Site("resid", layer) for layer in range(anatomy(model).layers + 1)]
        self.clean = capture(model, clean, self.sites)
        if NNSIGHT:
            from nnsight import NNsight

            self.traced = NNsight(model)
            names = {module: name for name, module in model.named_modules()}
            parts = anatomy(model)
            self.blocks = [self._envoy(names[block]) for block in parts.blocks]
            self.unembedding = self._envoy(names[parts.unembedding])

    def _envoy(self, path: str) -> Any:
        found = self.traced
        for part in path.split("."):
            found = found[int(part)] if part.isdigit() else getattr(found, part)
        return found

    def batched(self, layer: int, stop: int) -> Tensor:
        """(b): all pairs, [P, V]."""
        return self._hooked(layer, stop, slice(None))

    def single(self, layer: int, stop: int, pair: int) -> Tensor:
        """(a): one pair, [1, V]."""
        some = slice(pair, pair + 1)
        if not NNSIGHT:
            return self._hooked(layer, stop, some)
        clean = self.clean[self.sites[layer]][some, :stop]
        with self.traced.trace(self.corrupted[some]):
            if layer == 0:
                self.blocks[0].input[:, :stop] = clean
            else:
                self.blocks[layer - 1].output[:, :stop] = clean
            logits = self.unembedding.output[:, -1].save()
        return logits

    def _hooked(self, layer: int, stop: int, some: slice) -> Tensor:
        site = self.sites[layer]
        clean = self.clean[site][some]

        def patch(resid: Tensor) -> Tensor:
            return torch.cat((clean[:, :stop], resid[:, stop:]), dim=1)

        with overwrite(self.model, {site: patch}):
            return self.model(self.corrupted[some], use_cache=False).logits[:, -1]


def timed(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, result


def spread(total: int, n: int) -> list[int]:
    """n of 0..total-1, evenly spread and not in step with rows of any round length."""
    return [int((i + 0.5) * total / n) for i in range(n)]


@torch.no_grad()
def measure(case: Case) -> None:
    task = word_problem("S3", case.length)
    model = build(case.spec, task.vocabulary.size, case.length + 1, seed=0).to(case.device)
    drawn = draw_pairs(task, case.pairs, case.length, corrupt_at=0, seed=0)
    clean, corrupted = drawn.tokens(task, case.device)
    peers = Peers(model, clean, corrupted)
    spec = GridSpec("prefix", "substitution")
    rows, columns = len(peers.sites), case.length
    cells = rows * columns

    def ours(n: int = case.pairs) -> Tensor:
        return patch_grid(model, clean[:n], corrupted[:n], spec, offset=1).grids[0].values

    def some_single() -> list[tuple[int, int, int, Tensor]]:
        chosen = [
            (*divmod(i % cells, columns), i // cells)
            for i in spread(cells * case.pairs, case.single)
        ]
        return [(row, t, pair, peers.single(row, t + 2, pair)) for row, t, pair in chosen]

    def some_batched() -> list[tuple[int, int, Tensor]]:
        chosen = [divmod(i, columns) for i in spread(cells, case.batched)]
        return [(row, t, peers.batched(row, t + 2)) for row, t in chosen]

    ours(1), peers.single(1, 2, 0), peers.batched(1, 2)  # warm up
    seconds: dict[str, list[float]] = {"ours": [], "a": [], "b": []}
    for _ in range(case.turns):
        took, grid = timed(ours, case.device)
        seconds["ours"].append(took)
        took, singles = timed(some_single, case.device)
        seconds["a"].append(took * cells * case.pairs / case.single)
        took, batches = timed(some_batched, case.device)
        seconds["b"].append(took * cells / case.batched)
    error = max(
        *((grid[row, t, i] - one[0].cpu()).abs().max().item() for row, t, i, one in singles),
        *((grid[row, t] - some.cpu()).abs().max().item() for row, t, some in batches),
    )
    report(case, rows, {name: statistics.median(times) for name, times in seconds.items()}, error)


def report(case: Case, rows: int, seconds: dict[str, float], error: float) -> None:
    def target(value: float | None) -> str:
        return "" if value is None else f"   (target {value:g})"

    least_a, least_b, most = case.targets
    where = (
        torch.cuda.get_device_name()
        if case.device == "cuda"
        else (f"{torch.get_num_threads()} threads")
    )
    done = rows * case.length * case.pairs
    print(f"{case.spec.name}: {rows} x {case.length} prefix grid, {case.pairs} pairs, {where}")
    print(f"  ours                {seconds['ours']:9.2f} s{target(most)}")
    for name, words, least, sample in (
        ("a", SINGLE, least_a, case.single / done),
        ("b", "hooks, a forward per cell", least_b, case.batched * case.pairs / done),
    ):
        each = 1000 * seconds[name] / done
        print(
            f"  ({name}) {words}: {seconds[name]:.1f} s, {each:.2f} ms per pair and cell, from "
            f"{sample:.2%} of them"
        )
        print(f"      ours is faster  {seconds[name] / seconds['ours']:7.1f} times{target(least)}")
    print(f"  largest difference between logits {error:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="Pythia-160M on a CUDA device")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    options = parser.parse_args()
    if options.gpu and not torch.cuda.is_available():
        raise SystemExit("--gpu needs a CUDA device, and torch sees none")
    torch.set_num_threads(options.threads)
    if not NNSIGHT:
        print("nnsight is not installed: (a) is one plain forward pass per pair and cell instead")
    for case in GPU if options.gpu else CPU:
        measure(case)


if __name__ == "__main__":
    main()
