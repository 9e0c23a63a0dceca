"""Checkpoints that survive a power cut: written beside, flushed, renamed, and known by checksum.

A checkpoint folder loads with `AutoModelForCausalLM.from_pretrained`. Next to the model stand
`optimizer.safetensors` (moments by parameter name), `training.json` (step, recipe position,
random state), where a stage has an auxiliary classifier `auxiliary.safetensors`, where the task is
told in words the tokenizer (`AutoTokenizer.from_pretrained`), and `checksums.json`, written last.

Cost: parameters x 12 bytes on disk, and one pass of SHA-256 over them when written and when read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from statetrace.models.checkpoint import quiet
from statetrace.runs import Run, write_json

CHECKSUMS = "checksums.json"
AUXILIARY = "auxiliary.safetensors"


@dataclass(frozen=True)
class Snapshot:
    """Everything a checkpoint holds besides the model's configuration, as whole CPU tensors."""

    step: int
    weights: dict[str, torch.Tensor]
    moments: dict[str, torch.Tensor]
    state: dict[str, Any]
    auxiliary: dict[str, torch.Tensor] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def save(run: Run, model: Any, snapshot: Snapshot, keep: int) -> Path:
    """Write `snapshot` as RUN/checkpoints/step-N and drop all but the newest `keep` (0: none)."""
    final = run.checkpoint(snapshot.step)
    beside = final.with_name(f".{final.name}.writing")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    with quiet():
        model.save_pretrained(beside, state_dict=snapshot.weights)
    save_file(snapshot.moments, beside / "optimizer.safetensors")
    if snapshot.auxiliary:
        save_file(snapshot.auxiliary, beside / AUXILIARY)
    for name, text in snapshot.files.items():
        (beside / name).write_text(text, encoding="utf-8")
    write_json(beside / "training.json", {"step": snapshot.step, **snapshot.state})
    names = sorted(file.name for file in beside.iterdir())
    write_json(beside / CHECKSUMS, {name: _digest(beside / name) for name in names})
    for file in beside.iterdir():
        _flush(file)
    _flush(beside)
    shutil.rmtree(final, ignore_errors=True)  # only ever a damaged one that resume passed over
    beside.rename(final)
    _flush(final.parent)
    if keep:
        for _, old in run.checkpoints()[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
    return final


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint folder, or None if every file is as it was written."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError):
        return f"{CHECKSUMS} is missing or unreadable"
    for name, digest in sums.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if _digest(folder / name) != digest:
            return f"{name} does not match its checksum"
    return None


def newest(run: Run, tell: Callable[[str], None]) -> tuple[int, Path] | None:
    """The newest undamaged checkpoint; `tell` hears about each one passed over."""
    for step, folder in reversed(run.checkpoints()):
        trouble = damage(folder)
        if trouble is None:
            return step, folder
        tell(f"checkpoint {folder} is damaged ({trouble}); using the one before it")
    return None


def ended(folder: Path) -> str | None:
    """Why training ended at this checkpoint although steps were left, or None if it did not."""
    return _noted(folder, "ended")


def fingerprint(folder: Path) -> str | None:
    """Of the data from outside that the stage of this checkpoint was trained on, if there were."""
    return _noted(folder, "fingerprint")


def _noted(folder: Path, key: str) -> str | None:
    found = json.loads((folder / "training.json").read_text()).get(key)
    return None if found is None else str(found)


def moments(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "optimizer.safetensors"))


def auxiliary(folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the auxiliary classifier by parameter name; empty where there is none."""
    file = folder / AUXILIARY
    return dict(load_file(file)) if file.is_file() else {}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
