"""Whom to look at: a model and its task, from a run folder or from anyone's checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.lenses.parts.answers import check_fits
from statetrace.models import load_checkpoint
from statetrace.runs import Run
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem
from statetrace.training import checkpoint, setup
from statetrace.training.parallel import pick_device
from statetrace.training.recipe import Recipe


@dataclass(frozen=True)
class Subject:
    """A model on its device, the task it was trained for, and where that model came from."""

    model: Any
    task: WordProblem
    folder: Path


@dataclass(frozen=True)
class Foreign:
    """How to read a checkpoint that statetrace did not train.

    Attributes:
        tokens: tokens[g] is the token id of element g; None for token i = element i.
        start_marker: whether a marker comes first; left out by itself where the vocabulary has no
            token to spare.
        start_token: its id; None for the one after the last element.
    """

    group: str
    length: int
    notation: str = "moves"
    tokens: tuple[int, ...] | None = None
    start_marker: bool = True
    start_token: int | None = None


def from_run(run: Run, step: int | None = None, device: str = "auto") -> Subject:
    """The model of a run folder at a checkpoint (the newest undamaged by default)."""
    info = run.info
    if "foreign" in info:
        about = dict(info["foreign"])
        folder = Path(about.pop("folder"))
        tokens = about.pop("tokens")
        reading = Foreign(**about, tokens=None if tokens is None else tuple(tokens))
        return from_checkpoint(folder, reading, device)
    recipe = Recipe.of(info["recipe"], f"{run.path}/run.json")
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    task = setup.make_task(recipe)
    _, analysis = setup.make_splits(recipe, task)
    folder = _checkpoint(run, step)
    model = load_checkpoint(folder).to(pick_device(device))
    return Subject(model, replace(task, held_out=analysis), folder)


def _checkpoint(run: Run, step: int | None) -> Path:
    if step is None:
        found = checkpoint.newest(run, lambda _: None)
        if found is None:
            raise StatetraceError(f"'{run.path}' has no undamaged checkpoint yet; train it first")
        return found[1]
    steps = [there for there, _ in run.checkpoints()]
    if step not in steps:
        raise StatetraceError(
            f"'{run.path}' has no checkpoint at step {step}; there are {', '.join(map(str, steps))}"
        )
    return run.checkpoint(step)


def from_checkpoint(folder: Path, reading: Foreign, device: str = "auto") -> Subject:
    """Any Hugging Face causal language model whose vocabulary holds the actions."""
    model = load_checkpoint(folder).to(pick_device(device))
    of = group(reading.group, reading.notation)
    elements = reading.tokens or tuple(range(of.order))
    known_tokens = int(model.get_input_embeddings().weight.shape[0])
    marker: int | None = None
    if reading.start_token is not None:
        marker = reading.start_token
    elif reading.start_marker and known_tokens > max(elements) + 1:
        marker = max(elements) + 1
    task = WordProblem(of, reading.length, Vocabulary(elements, marker))
    check_fits(model, task, reading.length)
    return Subject(model, task, folder)
