"""Load a model and its task, from a run folder or from any Hugging Face checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from statetrace.config.external import VISIBLE, ExternalCheckpoint
from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.files import read_json
from statetrace.groups import group
from statetrace.lenses.fingerprint import fingerprint, recorded_checksum
from statetrace.lenses.parts.answers import check_fits
from statetrace.lenses.parts.hidden_padding import HiddenPadding, check_hidden
from statetrace.models import load_checkpoint, locate_tokenizer
from statetrace.models.device import pick_device
from statetrace.models.from_recipe import data_fingerprint, make_analysis_split, make_task
from statetrace.models.predict import predict
from statetrace.runs import OnMessage, Run, checkpoint_damage, no_message
from statetrace.tasks import phrases, tokenizer
from statetrace.tasks.plain_text import PlainText, plain_text
from statetrace.tasks.sentences import sentences
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, its task, and the checkpoint it came from.

    Attributes:
        folder: of the checkpoint; None for a model that was built in memory.
        step: of the run's training; None for an external checkpoint.
        threads: CPU threads of the run, where its recipe sets them.
        weights: fingerprint of the checkpoint's files; None in memory.
    """

    model: Any
    task: WordProblem
    folder: Path | None = None
    step: int | None = None
    threads: int | None = None
    weights: str | None = None

    def about(self) -> dict[str, Any]:
        """Which checkpoint a lens result describes."""
        about = {"step": self.step, "checkpoint": self.folder.name if self.folder else "memory"}
        return about if self.weights is None else about | {"weights": self.weights}


def load_run(
    run: Run,
    step: int | None = None,
    device: str = "auto",
    on_message: OnMessage = no_message,
    light: bool = False,
) -> LoadedModel:
    """The model of a run folder at a checkpoint, by default the newest undamaged one; damaged ones
    that were skipped are reported to `on_message`. For `light` see `load_checkpoint`."""
    external = ExternalCheckpoint.of(run)
    if external is not None:
        if step is not None:
            raise StatetraceError(f"'{run.path}' was not trained here and has no step {step}")
        external = replace(external, group=run.group)
        return load_external(external.path(run), external, device, light)
    recipe = Recipe.of(run.recipe, f"{run.path}/run.json")
    step, folder = _checkpoint(run, step, on_message)
    task = make_task(recipe, folder, run.group)
    model = load_checkpoint(folder, light).to(pick_device(device))
    _check_data(recipe, folder)
    task = replace(task, held_out=make_analysis_split(recipe, task))
    weights = recorded_checksum(folder)
    return LoadedModel(model, task, folder, step, recipe.training.threads, weights)


def _check_data(recipe: Recipe, folder: Path) -> None:
    """Refuse a data folder that has changed; exported and older checkpoints do not record it."""
    file = folder / "training.json"
    data = read_json(file).get("data") if file.is_file() else None
    if data is not None and data != data_fingerprint(recipe):
        raise StatetraceError(
            f"the data in '{recipe.task.data}' have changed since {folder} was written; "
            "restore them"
        )


def _checkpoint(run: Run, step: int | None, on_message: OnMessage) -> tuple[int, Path]:
    steps = [step for step, _ in run.checkpoints()]
    if not steps and (run.path / "lenses").is_dir():
        raise StatetraceError(
            f"'{run.path}' has results but no weights; retrain it with the recipe in its run.json"
        )
    if not steps:
        raise StatetraceError(f"'{run.path}' has no checkpoint yet; train it first")
    if step is None:
        newest = run.newest_checkpoint(on_message)
        if newest is None:
            raise StatetraceError(f"'{run.path}' has no undamaged checkpoint; train it again")
        return newest
    if step not in steps:
        raise StatetraceError(
            f"'{run.path}' has no checkpoint at step {step}; there are {', '.join(map(str, steps))}"
        )
    damage = checkpoint_damage(run.checkpoint(step))
    if damage:
        raise StatetraceError(f"checkpoint {run.checkpoint(step)} is damaged ({damage})")
    return step, run.checkpoint(step)


def load_external(
    folder: Path, external: ExternalCheckpoint, device: str = "auto", light: bool = False
) -> LoadedModel:
    """Any Hugging Face causal language model whose vocabulary holds the actions, or that reads them
    as text."""
    light = light and (external.form != "text" or external.padding == VISIBLE)  # nothing hidden
    model = load_checkpoint(folder, light).to(pick_device(device))
    return replace(read_model(model, external, folder), weights=fingerprint(folder))


def read_model(model: Any, external: ExternalCheckpoint, folder: Path | None) -> LoadedModel:
    """A model in memory; text needs the `folder` with its tokenizer."""
    read = _in_words if external.form == "text" else _in_tokens
    return read(model, folder, external)


def _in_tokens(model: Any, folder: Path | None, external: ExternalCheckpoint) -> LoadedModel:
    """A model with one token per action."""
    states = group(external.group, external.notation)
    elements = external.tokens or tuple(range(states.order))
    vocabulary_size = int(model.get_input_embeddings().weight.shape[0])
    marker = external.start_token
    if marker is None and external.start_marker and vocabulary_size > max(elements) + 1:
        marker = max(elements) + 1
    task = WordProblem(states, external.length, Vocabulary(elements, marker))
    check_fits(model, task, external.length)
    _check_causal(model, task, folder)
    return LoadedModel(model, task, folder)


def _in_words(model: Any, folder: Path | None, external: ExternalCheckpoint) -> LoadedModel:
    """A model that reads text with the tokenizer in its folder."""
    if folder is None:
        raise StatetraceError("form 'text' needs the folder of a checkpoint with a tokenizer.json")
    states = group(external.group, external.notation)
    reader = tokenizer.read(locate_tokenizer(str(folder)))
    vocabulary: Vocabulary
    if external.padding == VISIBLE:
        vocabulary = sentences(states, external.paraphrases, external.start_marker, reader)
    else:
        wordings = external.phrases or phrases.wordings(states, external.paraphrases)
        start = external.start_token
        if start is None and external.start_marker:
            start = reader.token_to_id(tokenizer.START)
        vocabulary = plain_text(states, wordings, reader, external.tokens, start)
    task = WordProblem(states, external.length, vocabulary)
    check_fits(model, task, external.length)
    if isinstance(vocabulary, PlainText):
        model = HiddenPadding(model, vocabulary.pad).eval()
        check_hidden(model, task, str(folder))
    _check_causal(model, task, folder)
    return LoadedModel(model, task, folder)


def _check_causal(model: Any, task: WordProblem, folder: Path | None) -> None:
    """Refuse a model whose earlier answers change with the last action."""
    actions = torch.zeros(2, max(2, task.length), dtype=torch.long)
    actions[1, -1] = task.group.order - 1
    tokens = task.encode(actions.to(next(model.parameters()).device))
    earlier = task.vocabulary.tokens(actions.shape[1] - 1)
    with torch.no_grad():
        before = predict(model, tokens)[:, :earlier]
    if (before[0] - before[1]).abs().max() > 1e-5 * (1 + before.abs().max()):  # beyond rounding
        raise StatetraceError(
            f"the model {_where(folder)} ({model.config.model_type}) is not causal: its answers "
            "change with later actions; use a causal language model"
        )


def _where(folder: Path | None) -> str:
    return "in memory" if folder is None else f"in '{folder}'"
