"""Which device a model runs on, and how much memory is free there."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from statetrace.config.checks import check_device
from statetrace.errors import StatetraceError

CGROUP = Path("/sys/fs/cgroup")


def pick_device(name: str) -> torch.device:
    """`auto` is the CUDA GPU if there is one, else the CPU."""
    check_device(name)
    kind, _, number = name.partition(":")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise StatetraceError("device 'mps' is not available: there is no Apple GPU; use cpu")
    if kind == "cuda" and not torch.cuda.is_available():
        raise StatetraceError(f"device '{name}' is not available: there is no CUDA GPU; use cpu")
    if number and int(number) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise StatetraceError(f"device '{name}' does not exist; the last GPU is cuda:{last}")
    if kind in ("cpu", "mps") or not torch.cuda.is_available():
        return torch.device("cpu" if kind == "auto" else kind)
    return torch.device("cuda", int(number or os.environ.get("LOCAL_RANK", "0")))


def float64_device(device: torch.device) -> torch.device:
    """Where float64 is computed: Apple GPUs do not have it."""
    return torch.device("cpu") if device.type == "mps" else device


def free_bytes(device: torch.device) -> int:
    """Memory that can be allocated now."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + cached
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    try:  # a container may be limited to less than the machine has
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return available
    used -= int(stat.get("inactive_file", 0))  # cached files can be evicted
    return available if limit == "max" else max(0, min(available, int(limit) - used))
