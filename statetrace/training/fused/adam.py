"""AdamW over stacked parameters, with gradients clipped for each seed."""

from __future__ import annotations

from typing import Any

import torch

from statetrace.config.settings import TrainingSettings
from statetrace.training.fused.weights import ParameterGroup, StackedWeights

EPS = 1e-8


class Adam:
    """`torch.optim.AdamW` with `clip_grad_norm_`, for all seeds of `StackedWeights`.

    The learning rate and the bias corrections are read from the device, so that one CUDA graph
    serves every step.
    """

    def __init__(self, weights: StackedWeights, settings: TrainingSettings, ops: Any) -> None:
        self.weights, self.settings, self._ops = weights, settings, ops
        first = weights.value["tokens"]
        self.schedule = torch.zeros(3, device=first.device)
        self._joined = first.is_cuda
        self._groups: dict[tuple[int | None, int | None], list[ParameterGroup]] = {}

    def set_step(self, step: int, rate: float) -> None:
        """Prepare step number `step` (from 0)."""
        self._count, self._rate = torch.tensor(float(step + 1)), rate
        if not self._joined:
            return
        betas = self.settings.beta1, self.settings.beta2
        corrections = [1 - beta ** (step + 1) for beta in betas]
        schedule = torch.tensor([rate, *corrections]).pin_memory()
        self.schedule.copy_(schedule, non_blocking=True)

    def warm_up(self, seeds: slice) -> None:
        """Take a step and undo it, so that kernels are compiled before a graph is captured."""
        saved = [[tensor.clone() for tensor in group.updated] for group in self.weights.groups]
        self.step(seeds)
        for group, before in zip(self.weights.groups, saved, strict=True):
            for tensor, old in zip(group.updated, before, strict=True):
                tensor.copy_(old)

    def step(self, seeds: slice) -> None:
        """Update some of the seeds; on a GPU all."""
        groups = self._select(seeds)
        norms = self._ops.norms([grad for group in groups for grad in group.grad])
        for group in groups:
            decay = 0.0 if group.kind == "vector" else self.settings.weight_decay
            if self._joined:
                self._by_kernel(group, norms, decay)
            else:
                self._by_torch(group, norms, decay)

    def _by_kernel(self, group: ParameterGroup, norms: torch.Tensor, decay: float) -> None:
        self._ops.adam(
            group.value[0], group.work[0], group.grad[0], (group.first[0], group.second[0]),
            norms, self.schedule, self.settings.clip, decay,
            (self.settings.beta1, self.settings.beta2), EPS,
        )  # fmt: skip

    def _by_torch(self, group: ParameterGroup, norms: torch.Tensor, decay: float) -> None:
        if self.settings.clip:
            scale = (self.settings.clip / (norms + 1e-6)).clamp(max=1.0)
            for grad in group.grad:
                grad.mul_(scale.view(-1, *[1] * (grad.ndim - 1)))
        torch._fused_adamw_(
            group.value, group.grad, group.first, group.second, [],
            [self._count] * len(group.grad),
            lr=self._rate, beta1=self.settings.beta1, beta2=self.settings.beta2,
            weight_decay=decay, eps=EPS, amsgrad=False, maximize=False,
        )  # fmt: skip

    def _select(self, seeds: slice) -> list[ParameterGroup]:
        key = (seeds.start, seeds.stop)
        if key not in self._groups:
            self._groups[key] = [group.select(seeds) for group in self.weights.groups]
        return self._groups[key]
