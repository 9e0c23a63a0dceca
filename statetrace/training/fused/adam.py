"""AdamW over stacked parameters, gradients clipped seed by seed."""

from __future__ import annotations

from typing import Any

import torch

from statetrace.config.settings import TrainingSettings
from statetrace.training.fused import plain
from statetrace.training.fused.weights import Part, StackedWeights

EPS = 1e-8


class Adam:
    """`torch.optim.AdamW` with `clip_grad_norm_`, for all seeds of `StackedWeights`.

    The learning rate and the bias corrections are read from the device, so that a CUDA graph of a
    step can be used for every step.
    """

    def __init__(self, weights: StackedWeights, settings: TrainingSettings) -> None:
        self.weights, self.settings = weights, settings
        first = weights.value["tokens"]
        self.told = torch.zeros(3, device=first.device)
        self._joined = first.is_cuda
        self._parts: dict[tuple[int | None, int | None], list[Part]] = {}

    def tell(self, step: int, rate: float) -> None:
        """Before step number `step` (from 0)."""
        self._count, self._rate = torch.tensor(float(step + 1)), rate
        if not self._joined:
            return
        betas = self.settings.beta1, self.settings.beta2
        rises = [1 - beta ** (step + 1) for beta in betas]
        told = torch.tensor([rate, *rises]).pin_memory()
        self.told.copy_(told, non_blocking=True)

    def rehearse(self, seeds: slice) -> None:
        """A step that is taken back, so that kernels are compiled before a graph is captured."""
        kept = [[tensor.clone() for tensor in part.changing] for part in self.weights.parts]
        self.step(seeds)
        for part, before in zip(self.weights.parts, kept, strict=True):
            for tensor, old in zip(part.changing, before, strict=True):
                tensor.copy_(old)

    def step(self, seeds: slice) -> None:
        """Of some of the seeds; on a GPU of all."""
        parts = self._some(seeds)
        norms = self._ops().norms([grad for part in parts for grad in part.grad])
        for part in parts:
            decay = 0.0 if part.kind == "vector" else self.settings.weight_decay
            if self._joined:
                self._by_kernel(part, norms, decay)
            else:
                self._by_torch(part, norms, decay)

    def _ops(self) -> Any:
        if not self._joined:
            return plain
        from statetrace.training.fused import kernels

        return kernels

    def _by_kernel(self, part: Part, norms: torch.Tensor, decay: float) -> None:
        self._ops().adam(
            part.value[0],
            part.work[0],
            part.grad[0],
            (part.first[0], part.second[0]),
            norms,
            self.told,
            self.settings.clip,
            decay,
            (self.settings.beta1, self.settings.beta2),
            EPS,
        )

    def _by_torch(self, part: Part, norms: torch.Tensor, decay: float) -> None:
        if self.settings.clip:
            scale = (self.settings.clip / (norms + 1e-6)).clamp(max=1.0)
            for grad in part.grad:
                grad.mul_(scale.view(-1, *[1] * (grad.ndim - 1)))
        torch._fused_adamw_(
            part.value,
            part.grad,
            part.first,
            part.second,
            [],
            [self._count] * len(part.grad),
            lr=self._rate,
            beta1=self.settings.beta1,
            beta2=self.settings.beta2,
            weight_decay=decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

    def _some(self, seeds: slice) -> list[Part]:
        key = (seeds.start, seeds.stop)
        if key not in self._parts:
            self._parts[key] = [part.some(seeds) for part in self.weights.parts]
        return self._parts[key]
