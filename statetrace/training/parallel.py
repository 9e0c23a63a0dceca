"""One process or several, and how a model is spread over them.

Under torchrun, `ddp` keeps a copy of the model in every process, and `fsdp` (FSDP2) shards
parameters, gradients and optimizer state, for models that do not fit one GPU. The global batch is
the same either way, so the loss curve equals that of one process up to rounding.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from statetrace.errors import StatetraceError
from statetrace.models import anatomy
from statetrace.models.device import pick_device


@dataclass(frozen=True)
class World:
    """This process among all of them."""

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh | None = None  # of all processes, if there are several

    @property
    def leads(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def part(self, batch: int) -> slice:
        """This process's share of the rows of a batch."""
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def check_shares(self, batch: int, accumulate: int) -> None:
        """Refuse a batch that does not split into equal parts, whose mean would not be its loss."""
        if batch % (self.size * accumulate):
            raise StatetraceError(
                f"batch {batch} cannot be shared by {self.size} processes in {accumulate} parts "
                f"each; use a multiple of {self.size * accumulate}"
            )

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def agreed(self, decision: bool) -> bool:
        """The leading process's decision, in all of them."""
        if self.size == 1:
            return decision
        flag = torch.tensor([decision], dtype=torch.int32, device=self.device)
        dist.broadcast(flag, src=0)
        return bool(flag.item())


@contextlib.contextmanager
def join(device_name: str) -> Iterator[World]:
    """Join the processes that torchrun started, if it did, and leave them at the end in any
    case."""
    device = pick_device(device_name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        yield World(0, 1, device)
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    mesh = init_device_mesh(device.type, (size,))
    try:
        yield World(dist.get_rank(), size, device, mesh)
    finally:
        dist.destroy_process_group()
        # Threads of a process group that outlive the interpreter may abort the process. torch
        # caches the mesh, and sharded modules are in reference cycles: release both.
        getattr(mesh, "_pg_registry", {}).clear()
        gc.collect()


def spread(model: nn.Module, world: World, how: str, inside: Any = None) -> nn.Module:
    """The module to call in training: the model itself, its DDP wrapper, or the sharded model.
    `inside` is the Hugging Face model if `model` wraps one."""
    if world.size == 1:
        return model
    if how == "fsdp":
        for block in anatomy(inside or model).blocks:
            fully_shard(block, mesh=world.mesh)
        fully_shard(model, mesh=world.mesh)  # in place
        return model
    return DistributedDataParallel(model)


def local_gradients(module: nn.Module) -> AbstractContextManager[None]:
    """A context in which DDP does not average gradients, for all but the last part of a batch."""
    return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()
