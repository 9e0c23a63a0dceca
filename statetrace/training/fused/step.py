"""The fused training step of one or several models, from a batch of each to their losses."""

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
from statetrace.training.auxiliary import ModelWithAuxiliary
from statetrace.training.fused import plain
from statetrace.training.fused.adam import Adam
from statetrace.training.fused.narrow import NarrowTransformer, is_narrow
from statetrace.training.fused.operations import (
    FIRST,
    GOLDEN,
    LONGEST,
    LONGEST_IN_FLOAT32,
    MASK32,
    WIDEST,
)
from statetrace.training.fused.shape import rotation, shape_of, unsupported_config
from statetrace.training.fused.transformer import FusedTransformer
from statetrace.training.fused.weights import StackedWeights

Loss = Callable[[Tensor, Tensor], Tensor]

CACHE = 1 << 20
"""Elements of the widest activation that fit a CPU's cache."""

LARGEST_VOCAB = 1024
"""Largest vocabulary: gradients of embeddings are products with a matrix of vocab x rows."""


def unsupported_reason(
    config: Any, device: torch.device, tokens: int, dtype: torch.dtype = torch.bfloat16
) -> str | None:
    """Why the fused training step does not support a model of this configuration on sequences of
    this many tokens, or None."""
    reason = unsupported_config(config)
    if reason is not None:
        return reason
    width = config.hidden_size // config.num_attention_heads
    return unsupported_size(
        config.vocab_size, tokens, width, config.model_type != "gpt2", device, dtype
    )


def unsupported_size(
    vocab: int,
    tokens: int,
    head_width: int,
    rotates: bool,
    device: torch.device,
    dtype: torch.dtype,
) -> str | None:
    """What is too large about a model and its sequences, or None."""
    if vocab > LARGEST_VOCAB:
        return f"its vocabulary of {vocab:,} tokens is larger than {LARGEST_VOCAB:,}"
    if device.type != "cuda":
        return None
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    longest = LONGEST_IN_FLOAT32 if dtype == torch.float32 else LONGEST
    if tokens > longest:
        return f"its sequences have {tokens} tokens, more than {longest}"
    if head_width > WIDEST:
        return f"its heads are {head_width} wide, more than {WIDEST}"
    if rotates and head_width & (head_width - 1):
        return f"its heads are rotated and {head_width} wide, which is not a power of 2"
    return None


class FusedStep:
    """Models of one shape, each with its own weights and batches, trained together.

    The models' parameters become views of stacked tensors and stay usable, for evaluations and
    checkpoints. Changes from outside have no effect if the working precision is not float32.

    `auxiliary` has the auxiliary classifier of each model, if there are any; each is trained with
    its model.
    """

    def __init__(
        self,
        models: Sequence[Any],
        settings: TrainingSettings,
        loss: Loss,
        dtype: torch.dtype,
        auxiliary: Sequence[ModelWithAuxiliary] = (),
    ) -> None:
        self.settings, self.dtype = settings, dtype
        self.shape = shape_of(models[0])
        self._named = [dict(model.named_parameters()) for model in models]
        self._classifier_grad: Loss | None = None
        if auxiliary:
            self.shape = self.shape.with_classifier(auxiliary[0].layer)
            self._classifier_grad = vmap(grad(auxiliary[0].loss))
            for named, model in zip(self._named, auxiliary, strict=True):
                named.update(model.named_classifier())
        self.weights = StackedWeights(self._named, self.shape, dtype)
        self.device = self.weights.value["tokens"].device
        self._ops: Any = plain
        if self.device.type == "cuda":
            from statetrace.training.fused import kernels

            self._ops = kernels
        hidden = self.weights.value["0.fc.b"].shape[1]
        half = dtype != torch.float32
        self._narrow = self._ops is not plain and half and is_narrow(self.shape, hidden)
        self.adam = Adam(self.weights, settings, self._ops)
        self._loss, self._cross_entropy = vmap(grad_and_value(loss)), loss is evaluate.loss
        positions = int(models[0].config.max_position_embeddings)
        self._rotation = rotation(models[0], self.shape, positions)
        self.steps = torch.zeros(())
        self._keys = torch.zeros(len(models), dtype=torch.long, device=self.device)
        self.graphs = self.device.type == "cuda"
        self._graphs: dict[tuple[int, ...], CapturedGraph] = {}
        self._transformers: dict[tuple[int | None, int | None], FusedTransformer] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._prefetch_stream: torch.cuda.Stream | None = None

    def __call__(
        self, index: int, tokens: Tensor, targets: Tensor, rate: float, seeds: Sequence[int]
    ) -> Tensor:
        """Step number `index` on a batch [S, B, T] of each model; `seeds` determine their dropout
        masks. Returns the losses [S]."""
        self.adam.set_step(index, rate)
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
    def prefetch(self) -> Iterator[None]:
        """Inside, GPU work runs on a stream of its own, so that the next batch is prepared while
        the previous step still runs. It may read what existed before the first such call, and
        nothing that a step writes."""
        if not self.graphs:
            yield
            return
        stream = torch.cuda.current_stream()
        if self._prefetch_stream is None:
            self._prefetch_stream = torch.cuda.Stream()
            self._prefetch_stream.wait_stream(stream)
        with torch.cuda.stream(self._prefetch_stream):
            yield
        stream.wait_stream(self._prefetch_stream)

    @torch.no_grad()
    def adopt(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        """Take over AdamW's moments of one model; the optimizer's own become views of them."""
        named = self._named[number]
        for role, name in self.shape.names.items():
            first, second = self.weights.first[role][number], self.weights.second[role][number]
            state = optimizer.state.get(named[name])
            if state:
                first.copy_(state["exp_avg"])
                second.copy_(state["exp_avg_sq"])
            views = {"step": self.steps, "exp_avg": first, "exp_avg_sq": second}
            optimizer.state[named[name]] = views

    def _run(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The whole step, call by call, with portions of the seeds in parallel."""

        def train(seeds: slice) -> Tensor:
            losses = self._gradients(tokens, targets, seeds)
            self.adam.step(seeds)
            return losses

        portions = self._portions(tokens)
        return torch.cat(list(self._workers(len(portions))(train, portions)))

    @torch.no_grad()
    def _gradients(self, tokens: Tensor, targets: Tensor, seeds: slice = slice(None)) -> Tensor:
        """Compute the gradients of some seeds, into `weights`; returns their losses."""
        transformer = self._transformer(seeds)
        logits = transformer.forward(tokens[seeds])
        losses, dlogits = self._losses(logits, targets[seeds], transformer.vocab)
        dclassifier = None
        if self._classifier_grad is not None and transformer.classifier_logits is not None:
            dclassifier = self._classifier_grad(transformer.classifier_logits, targets[seeds])
        transformer.backward(dlogits, dclassifier)
        return losses.detach()

    def _losses(self, logits: Tensor, targets: Tensor, vocab: int) -> tuple[Tensor, Tensor]:
        """Losses [S], and the gradients of logits [S, N, wide]."""
        if self._cross_entropy and self._ops is not plain:
            result: tuple[Tensor, Tensor]
            result = self._ops.cross_entropy(logits, targets.flatten(1), vocab)
            return result
        d, losses = self._loss(logits[..., :vocab].float().view(*targets.shape, vocab), targets)
        return losses, F.pad(d.flatten(1, 2).to(self.dtype), (0, logits.shape[-1] - vocab))

    def _transformer(self, seeds: slice) -> FusedTransformer:
        """Cached by seeds: looking up its tensors takes longer than some operations."""
        key = (seeds.start, seeds.stop)
        if key not in self._transformers:
            weights, keys = self.weights.select(seeds), self._keys[seeds]
            at_once = self.device.type == "cuda" and len(keys) == 1
            kind = NarrowTransformer if self._narrow and not at_once else FusedTransformer
            self._transformers[key] = kind(
                self.shape, weights, self._rotation, self.dtype, self._ops, keys, at_once
            )
        return self._transformers[key]

    def _portions(self, tokens: Tensor) -> list[slice]:
        """Which seeds are computed together: all on a GPU; on a CPU an equal share for every
        thread, and no more than its cache holds."""
        seeds, rows = len(tokens), tokens[0].numel()
        most = seeds
        if self.device.type == "cpu":
            fitting = max(1, CACHE // (4 * self.shape.width * rows))
            most = min(fitting, -(-seeds // torch.get_num_threads()))
        return [slice(start, start + most) for start in range(0, seeds, most)]

    def _workers(self, portions: int) -> Callable[..., Iterable[Tensor]]:
        """A `map` over portions in parallel, each on one thread: threads that share every small
        operation spend more time waiting for each other than computing."""
        threads = min(portions, torch.get_num_threads()) if self.device.type == "cpu" else 1
        if threads == 1:
            return map
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                threads, initializer=torch.set_num_threads, initargs=(1,)
            )
        return self._pool.map

    def _capture(self, tokens: Tensor, targets: Tensor) -> CapturedGraph:
        """The step as a CUDA graph. Warming up has no effect: gradients are overwritten, and the
        optimizer step is undone."""
        graph = torch.cuda.CUDAGraph()
        inputs = (tokens.clone(), targets.clone())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for seeds in 2 * self._portions(tokens):  # cached tensors are created here
                self._gradients(*inputs, seeds)
                self.adam.warm_up(seeds)
        torch.cuda.current_stream().wait_stream(side)
        pool = next(iter(self._graphs.values())).graph.pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool):
            losses = self._run(*inputs)
        return CapturedGraph(graph, *inputs, losses)


@dataclass(frozen=True)
class CapturedGraph:
    """A graph, the tensors it reads its batch from, and the one it writes its losses to."""

    graph: torch.cuda.CUDAGraph
    tokens: Tensor
    targets: Tensor
    losses: Tensor

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        for static, new in ((self.tokens, tokens), (self.targets, targets)):
            static.copy_(new)
            new.record_stream(torch.cuda.current_stream())  # it may come from the prefetch stream
        self.graph.replay()
        return self.losses.clone()


def _key(seed: int, index: int) -> int:
    """The key of the dropout masks of one step."""
    value = (seed * GOLDEN + index * FIRST + 1) & MASK32
    return (value ^ (value >> 16)) * FIRST & MASK32
