"""One optimizer step of one or several models, from a batch of each to their losses."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap
from torch.nn import functional as F

from statetrace.config.settings import TrainingSettings
from statetrace.training import evaluate
from statetrace.training.auxiliary import Reader
from statetrace.training.fused import plain
from statetrace.training.fused.adam import Adam
from statetrace.training.fused.operations import (
    FIRST,
    GOLDEN,
    LONGEST,
    LONGEST_IN_FLOAT32,
    MASK32,
    WIDEST,
)
from statetrace.training.fused.shape import rotation, shape_of, unsupported
from statetrace.training.fused.transformer import FusedTransformer
from statetrace.training.fused.weights import StackedWeights

Loss = Callable[[Tensor, Tensor], Tensor]

CACHE = 1 << 20
"""Numbers of the widest activation that a CPU works on at a time: what its cache holds."""


WORDS = 1024
"""Largest vocabulary: gradients of embeddings are products with ones, which take words x rows."""


def why_not(
    config: Any, device: torch.device, tokens: int, dtype: torch.dtype = torch.bfloat16
) -> str | None:
    """What keeps a model of this configuration from being trained by the program on sequences of so
    many tokens, or None."""
    reason = unsupported(config)
    if reason is not None:
        return reason
    width = config.hidden_size // config.num_attention_heads
    return beyond(config.vocab_size, tokens, width, config.model_type != "gpt2", device, dtype)


def beyond(
    words: int,
    tokens: int,
    head_width: int,
    rotates: bool,
    device: torch.device,
    dtype: torch.dtype,
) -> str | None:
    """What about the sizes of a model and of its sequences is too large, or None."""
    if words > WORDS:
        return f"its vocabulary of {words:,} tokens is larger than {WORDS:,}"
    if device.type != "cuda":
        return None
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    longest = LONGEST_IN_FLOAT32 if dtype == torch.float32 else LONGEST
    if tokens > longest:
        return f"its sequences have {tokens} tokens, and more than {longest} are too many"
    if head_width > WIDEST:
        return f"its heads are {head_width} wide, and more than {WIDEST} is too much"
    if rotates and head_width & (head_width - 1):
        return f"its heads are rotated and {head_width} wide, which is no power of 2"
    return None


class Step:
    """Models of one shape, each with its own weights and batches, trained in step.

    The models' parameters become views of stacked tensors and stay usable: evaluate them, save
    them. Changing them from outside would go unnoticed where the working precision is another.

    `readers` hold the auxiliary classifier of each model, where there are any: it is trained with
    its model, as its loss is added to the task's.
    """

    def __init__(
        self,
        models: Sequence[Any],
        settings: TrainingSettings,
        loss: Loss,
        dtype: torch.dtype,
        readers: Sequence[Reader] = (),
    ) -> None:
        self.settings, self.dtype = settings, dtype
        self.shape = shape_of(models[0])
        self._named = [dict(model.named_parameters()) for model in models]
        self._read_loss: Loss | None = None
        if readers:
            self.shape = self.shape.reading(readers[0].layer)
            self._read_loss = vmap(grad(readers[0].loss_of))
            for named, reader in zip(self._named, readers, strict=True):
                named.update(reader.named())
        self.weights = StackedWeights(self._named, self.shape, dtype)
        self.adam = Adam(self.weights, settings)
        self.device = self.weights.value["tokens"].device
        self._loss, self._usual = vmap(grad_and_value(loss)), loss is evaluate.loss
        self._turns = rotation(models[0], self.shape, _positions(models[0]))
        self.steps = torch.zeros(())
        self._keys = torch.zeros(len(models), dtype=torch.long, device=self.device)
        self.graphs = self.device.type == "cuda"
        self._graphs: dict[tuple[int, ...], Captured] = {}
        self._programs: dict[tuple[int | None, int | None], FusedTransformer] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._beside: torch.cuda.Stream | None = None
        self._ops: Any = plain
        if self.device.type == "cuda":
            from statetrace.training.fused import kernels

            self._ops = kernels

    def __call__(
        self, index: int, tokens: Tensor, targets: Tensor, rate: float, seeds: Sequence[int]
    ) -> Tensor:
        """Step number `index` on a batch [S, B, T] of each model; `seeds` are what their dropout
        masks are made from. The losses [S]."""
        self.adam.tell(index, rate)
        self.steps.fill_(index + 1)
        if self.shape.drop_embed or self.shape.drop_attention or self.shape.drop_resid:
            keys = torch.tensor([_key(seed, index) for seed in seeds])
            self._keys.copy_(keys.pin_memory() if self.graphs else keys, non_blocking=True)
        if not self.graphs:
            return self._run(tokens, targets)
        shape = tuple(tokens.shape)
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(tokens, targets)
        return self._graphs[shape](tokens, targets)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What is asked of the GPU inside need not wait for the step before to end: the next batch
        is made while that still runs. It may read what was there before the first such call, and
        nothing that a step writes."""
        if not self.graphs:
            yield
            return
        here = torch.cuda.current_stream()
        if self._beside is None:
            self._beside = torch.cuda.Stream()
            self._beside.wait_stream(here)
        with torch.cuda.stream(self._beside):
            yield
        here.wait_stream(self._beside)

    @torch.no_grad()
    def adopt(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        """Take over AdamW's moments of one model; the optimizer's own become views of them."""
        named = self._named[number]
        for role, name in self.shape.names.items():
            mine = self.weights.first[role][number], self.weights.second[role][number]
            theirs = optimizer.state.get(named[name])
            if theirs:
                mine[0].copy_(theirs["exp_avg"])
                mine[1].copy_(theirs["exp_avg_sq"])
            state = {"step": self.steps, "exp_avg": mine[0], "exp_avg_sq": mine[1]}
            optimizer.state[named[name]] = state

    def _run(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The whole step, call by call; portions of the seeds side by side."""

        def some(seeds: slice) -> Tensor:
            losses = self._gradients(tokens, targets, seeds)
            self.adam.step(seeds)
            return losses

        portions = self._portions(tokens)
        return torch.cat(list(self._workers(len(portions))(some, portions)))

    @torch.no_grad()
    def _gradients(self, tokens: Tensor, targets: Tensor, seeds: slice = slice(None)) -> Tensor:
        """Gradients of some seeds, into `weights`; their losses."""
        program = self._program(seeds)
        logits = program.forward(tokens[seeds])
        losses, dlogits = self._losses(logits, targets[seeds], program.words)
        dread = None
        if self._read_loss is not None and program.read is not None:
            dread = self._read_loss(program.read, targets[seeds])
        program.backward(dlogits, dread)
        return losses.detach()

    def _losses(self, logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, Tensor]:
        """Losses [S], and the gradients of logits [S, N, wide]."""
        if self._usual and self._ops is not plain:
            found: tuple[Tensor, Tensor] = self._ops.cross_entropy(
                logits, targets.flatten(1), words
            )
            return found
        said = logits[..., :words].float().view(*targets.shape, words)
        d, losses = self._loss(said, targets)
        return losses, F.pad(d.flatten(1, 2).to(self.dtype), (0, logits.shape[-1] - words))

    def _program(self, seeds: slice) -> FusedTransformer:
        """Made once for the same seeds: looking up what it works on takes longer than some work."""
        key = (seeds.start, seeds.stop)
        if key not in self._programs:
            weights, keys = self.weights.some(seeds), self._keys[seeds]
            at_once = self.device.type == "cuda" and len(keys) == 1
            self._programs[key] = FusedTransformer(
                self.shape, weights, self._turns, self.dtype, self._ops, keys, at_once
            )
        return self._programs[key]

    def _portions(self, tokens: Tensor) -> list[slice]:
        """Which seeds go together: all on a GPU; on a CPU a share for every thread, and no more
        than its cache holds."""
        seeds, rows = len(tokens), tokens[0].numel()
        most = seeds
        if self.device.type == "cpu":
            room = max(1, CACHE // (4 * self.shape.width * rows))
            most = min(room, -(-seeds // torch.get_num_threads()))
        return [slice(start, start + most) for start in range(0, seeds, most)]

    def _workers(self, portions: int) -> Callable[..., Iterable[Tensor]]:
        """Something like `map`: portions side by side, each on one thread. Two threads that share
        every small operation wait for each other more than they work."""
        threads = min(portions, torch.get_num_threads()) if self.device.type == "cpu" else 1
        if threads == 1:
            return map
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                threads, initializer=torch.set_num_threads, initargs=(1,)
            )
        return self._pool.map

    def _capture(self, tokens: Tensor, targets: Tensor) -> Captured:
        """The step as a CUDA graph. What is run to warm up leaves no trace: gradients are
        overwritten, and the optimizer's step is taken back."""
        graph = torch.cuda.CUDAGraph()
        still = (tokens.clone(), targets.clone())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for seeds in 2 * self._portions(tokens):  # what is looked up once is made here
                self._gradients(*still, seeds)
                self.adam.rehearse(seeds)
        torch.cuda.current_stream().wait_stream(side)
        pool = next(iter(self._graphs.values())).graph.pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool):
            losses = self._run(*still)
        return Captured(graph, *still, losses)


@dataclass(frozen=True)
class Captured:
    """A graph, where it reads its batch and where it writes its losses."""

    graph: torch.cuda.CUDAGraph
    tokens: Tensor
    targets: Tensor
    losses: Tensor

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        for still, new in ((self.tokens, tokens), (self.targets, targets)):
            still.copy_(new)
            new.record_stream(torch.cuda.current_stream())  # it may have been made beside it
        self.graph.replay()
        return self.losses.clone()


def _positions(model: Any) -> int:
    return int(model.config.max_position_embeddings)


def _key(seed: int, index: int) -> int:
    """What the dropout masks of one step are made of."""
    value = (seed * GOLDEN + index * FIRST + 1) & MASK32
    return (value ^ (value >> 16)) * FIRST & MASK32
