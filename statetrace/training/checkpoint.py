"""Checkpoints that survive a power cut: written to a temporary folder, flushed, then renamed.

A checkpoint folder loads with `AutoModelForCausalLM.from_pretrained`. Besides the model it holds
`optimizer.safetensors` (moments by parameter name), `training.json` (step, recipe, random state),
`auxiliary.safetensors` if the stage has an auxiliary classifier, the tokenizer if the task is
written as text (`AutoTokenizer.from_pretrained`), and `checksums.json`, written last.

Cost: parameters x 12 bytes on disk, and one pass of SHA-256 over them when written and when read.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from statetrace.files import digest, flush, read_json, write_json, write_text, writing
from statetrace.models.checkpoint import quiet
from statetrace.runs import CHECKSUMS, Run

AUXILIARY = "auxiliary.safetensors"


@dataclass(frozen=True)
class Snapshot:
    """Everything a checkpoint holds besides the model's configuration, as full CPU tensors."""

    step: int
    weights: dict[str, torch.Tensor]
    moments: dict[str, torch.Tensor]
    state: dict[str, Any]
    auxiliary: dict[str, torch.Tensor] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def save(run: Run, model: Any, snapshot: Snapshot, keep: int) -> Path:
    """Write `snapshot` as RUN/checkpoints/step-N; delete all but the newest `keep` (0: none)."""
    final = run.checkpoint(snapshot.step)
    temporary = final.with_name(f".{final.name}.writing")
    with writing(final), _or_nothing(temporary):
        _write(temporary, model, snapshot)
        shutil.rmtree(final, ignore_errors=True)  # only ever a damaged one that resume skipped
        temporary.rename(final)
        flush(final.parent)
    if keep:
        for _, old in run.checkpoints()[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
    return final


@contextlib.contextmanager
def _or_nothing(folder: Path) -> Iterator[None]:
    """Leave no half-written folder behind: it may have filled the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(folder: Path, model: Any, snapshot: Snapshot) -> None:
    """All files of a checkpoint, flushed."""
    folder.mkdir(parents=True)
    with quiet():
        model.save_pretrained(folder, state_dict=snapshot.weights)
    save_file(snapshot.moments, folder / "optimizer.safetensors")
    if snapshot.auxiliary:
        save_file(snapshot.auxiliary, folder / AUXILIARY)
    for name, text in snapshot.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_json(folder / "training.json", {"step": snapshot.step, **snapshot.state})
    checksums = {name: digest(folder / name) for name in sorted(f.name for f in folder.iterdir())}
    write_text(folder / CHECKSUMS, json.dumps(checksums, indent=2) + "\n")
    for file in folder.iterdir():
        flush(file)
    flush(folder)


def notes(folder: Path) -> dict[str, Any]:
    """What training.json says besides the step: `ended`, the stopping rule that ended training
    here; `fingerprint`, of data outside the run; `lowest_accuracy` at any length, for
    `stop_learned`; each only where there is one. `schedule` has the steps of the stage."""
    return dict(read_json(folder / "training.json"))


def moments(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "optimizer.safetensors"))


def auxiliary(folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the auxiliary classifier by parameter name; empty if there is none."""
    file = folder / AUXILIARY
    return dict(load_file(file)) if file.is_file() else {}
