"""AdamW, its schedules (learning rate, sequence length), and its state as named tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from statetrace.config.settings import TrainingSettings

MOMENTS = ("exp_avg", "exp_avg_sq", "step")

DECAY_SHARE = 0.3
"""Share of the steps over which a trapezoid schedule decays."""

SHORTEST = 3
"""Actions per sequence at the start of a run whose sequences grow."""


def adamw(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW over a model's parameters; weight decay acts on matrices, not on biases and norms."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (settings.beta1, settings.beta2)
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, fused=True)


def learning_rate(settings: TrainingSettings, step: int) -> float:
    """The rate of step `step` (from 0): linear warm-up, then decay to 0."""
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    progress = (step - settings.warmup) / (settings.steps - settings.warmup)
    factors = {
        "linear": 1 - progress,
        "cosine": (1 + math.cos(math.pi * progress)) / 2,
        "constant": 1.0,
        "trapezoid": min(1.0, (1 - progress) / DECAY_SHARE),
    }
    return settings.learning_rate * factors[settings.schedule]


def current_length(settings: TrainingSettings, step: int, length: int) -> int:
    """Actions per training sequence at step `step`: growing linearly, then constant."""
    growing = settings.grow * settings.steps
    if step >= growing or length <= SHORTEST:
        return length
    return min(length, math.ceil(SHORTEST + (length - SHORTEST) * step / growing))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def gather(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU copy of a tensor; if it is sharded, gathered from all processes (a collective call)."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().to("cpu", copy=True).contiguous()


def export(
    optimizer: torch.optim.Optimizer, names: Iterable[tuple[str, nn.Parameter]]
) -> dict[str, torch.Tensor]:
    """The optimizer's state as 'parameter/moment' -> tensor."""
    return {
        f"{name}/{moment}": gather(optimizer.state[parameter][moment])
        for name, parameter in names
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def restore(
    optimizer: torch.optim.Optimizer,
    names: Iterable[tuple[str, nn.Parameter]],
    saved: dict[str, torch.Tensor],
) -> None:
    """Load what `export` returned, sharded like the parameters."""
    for name, parameter in names:
        if f"{name}/step" not in saved:
            continue
        # fused AdamW requires the step count on the parameter's device
        state = {"step": saved[f"{name}/step"].to(parameter.device)}
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = _like(parameter, saved[f"{name}/{moment}"])
        optimizer.state[parameter] = state


@torch.no_grad()
def load_parameters(
    names: Iterable[tuple[str, nn.Parameter]], saved: dict[str, torch.Tensor]
) -> None:
    """Overwrite parameters with saved values."""
    for name, parameter in names:
        parameter.copy_(_like(parameter, saved[name]))


def _like(parameter: nn.Parameter, value: torch.Tensor) -> torch.Tensor:
    """A full tensor on the parameter's device, sharded like the parameter."""
    value = value.to(parameter.device)
    if isinstance(parameter, DTensor):
        return distribute_tensor(value, parameter.device_mesh, parameter.placements)
    return value
