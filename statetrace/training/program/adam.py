"""AdamW over stacked parameters, gradients clipped seed by seed."""

from __future__ import annotations

import torch

from statetrace.training.program.weights import Weights
from statetrace.training.settings import TrainingSettings

EPS = 1e-8


class Adam:
    """What `torch.optim.AdamW` and `clip_grad_norm_` do to one model, for all seeds of `Weights`.

    The learning rate and the bias corrections are read from the device, so that a CUDA graph of a
    step can be used for every step.
    """

    def __init__(self, weights: Weights, settings: TrainingSettings) -> None:
        self.weights, self.settings = weights, settings
        first = weights.value["tokens"]
        self.told = torch.zeros(3, device=first.device)
        self._joined = first.is_cuda

    def tell(self, step: int, rate: float) -> None:
        """Before step number `step` (from 0)."""
        self._count, self._rate = torch.tensor(float(step + 1)), rate
        if not self._joined:
            return
        betas = self.settings.beta1, self.settings.beta2
        rises = [1 - beta ** (step + 1) for beta in betas]
        told = torch.tensor([rate, *rises]).pin_memory()
        self.told.copy_(told, non_blocking=True)

    def rehearse(self) -> None:
        """Compile what a step needs, changing nothing: a rate of 0 on copies of nothing."""
        kept = [
            [t.clone() for t in (*p.value, *p.first, *p.second, *p.work)]
            for p in self.weights.parts
        ]
        self.step()
        for part, before in zip(self.weights.parts, kept, strict=True):
            for tensor, old in zip(
                (*part.value, *part.first, *part.second, *part.work), before, strict=True
            ):
                tensor.copy_(old)

    def step(self) -> None:
        norms = self._norms()
        betas = (self.settings.beta1, self.settings.beta2)
        for part in self.weights.parts:
            decay = 0.0 if part.kind == "vector" else self.settings.weight_decay
            if self._joined:
                from statetrace.training.program import kernels

                moments = (part.first[0], part.second[0])
                kernels.adam(
                    part.value[0],
                    part.work[0],
                    part.grad[0],
                    moments,
                    norms,
                    self.told,
                    self.settings.clip,
                    decay,
                    betas,
                    EPS,
                )
                continue
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
                [self._count] * len(part.value),
                lr=self._rate,
                beta1=betas[0],
                beta2=betas[1],
                weight_decay=decay,
                eps=EPS,
                amsgrad=False,
                maximize=False,
            )

    def _norms(self) -> torch.Tensor:
        """[S], over all parameters of a seed."""
        each = [
            torch.linalg.vector_norm(grad.flatten(1), dim=1, dtype=torch.float32)
            for part in self.weights.parts
            for grad in part.grad
        ]
        return torch.linalg.vector_norm(torch.stack(each), dim=0)
