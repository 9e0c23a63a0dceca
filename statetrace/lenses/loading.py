"""Whom to look at: a model and its task, from a run folder or from anyone's checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from statetrace.config.checks import one_of
from statetrace.config.recipe import Recipe
from statetrace.config.settings import FORMS
from statetrace.errors import StatetraceError
from statetrace.groups import group
from statetrace.lenses.fingerprint import fingerprint
from statetrace.lenses.parts.answers import check_fits
from statetrace.lenses.parts.hidden_padding import HiddenPadding, check_hidden
from statetrace.models import load_checkpoint, locate_tokenizer
from statetrace.models.device import pick_device
from statetrace.models.from_recipe import make_analysis_split, make_task
from statetrace.models.predict import predict
from statetrace.runs import Run, checkpoint_damage
from statetrace.tasks import phrases, tokenizer
from statetrace.tasks.plain_text import PlainText, plain_text
from statetrace.tasks.sentences import sentences
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem

HIDDEN, VISIBLE = PADDINGS = ("hidden", "visible")


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, the task it was trained for, and where that model came from.

    Attributes:
        step: of the run's training; None for a checkpoint from elsewhere.
        threads: CPU threads the run was trained with, where its recipe says so.
        weights: fingerprint of a checkpoint from elsewhere, which has no step to tell it by.
    """

    model: Any
    task: WordProblem
    folder: Path
    step: int | None = None
    threads: int | None = None
    weights: str | None = None

    def about(self) -> dict[str, Any]:
        """For a result to say whom it is about."""
        found = {"step": self.step, "checkpoint": self.folder.name}
        return found if self.weights is None else found | {"weights": self.weights}


@dataclass(frozen=True)
class ExternalCheckpoint:
    """How to read a checkpoint that statetrace did not train.

    Attributes:
        tokens: tokens[g] is the token id of element g; None for token i = element i. Where actions
            are told in words, these are the answers; None for tokens that spell the states.
        start_marker: whether a marker comes first; left out by itself where the vocabulary has no
            token to spare, in words where it has no <start>.
        start_token: its id; None for the one after the last element, in words for <start>.
        form: tokens, or text, which the tokenizer in the checkpoint's folder reads.
        paraphrases: wordings in use for every action, of statetrace's own.
        phrases: sentences for every element instead, by label.
        padding: of sentences of different lengths: hidden from the model, or visible to it, as it
            is to models that statetrace trains.
    """

    group: str
    length: int
    notation: str = "moves"
    tokens: tuple[int, ...] | None = None
    start_marker: bool = True
    start_token: int | None = None
    form: str = "tokens"
    paraphrases: int = 1
    phrases: dict[str, list[str]] | None = None
    padding: str = HIDDEN

    def __post_init__(self) -> None:
        one_of("form", self.form, FORMS)
        one_of("padding", self.padding, PADDINGS)


def from_run(
    run: Run,
    step: int | None = None,
    device: str = "auto",
    tell: Callable[[str], None] = lambda _: None,
) -> LoadedModel:
    """The model of a run folder at a checkpoint (the newest undamaged by default); `tell` hears of
    damaged ones that were passed over."""
    info = run.info
    if "foreign" in info:
        about = dict(info["foreign"])
        folder = run.path / about.pop("folder")  # which may say "here"
        tokens = about.pop("tokens")
        reading = ExternalCheckpoint(**about, tokens=None if tokens is None else tuple(tokens))
        return from_checkpoint(folder, reading, device)
    recipe = Recipe.of(run.recipe, f"{run.path}/run.json")
    step, folder = _checkpoint(run, step, tell)
    task = make_task(recipe, folder)
    model = load_checkpoint(folder).to(pick_device(device))
    task = replace(task, held_out=make_analysis_split(recipe, task))
    return LoadedModel(model, task, folder, step, recipe.training.threads)


def _checkpoint(run: Run, step: int | None, tell: Callable[[str], None]) -> tuple[int, Path]:
    steps = [there for there, _ in run.checkpoints()]
    if not steps:
        raise StatetraceError(f"'{run.path}' has no checkpoint yet; train it first")
    if step is None:
        found = run.newest_checkpoint(tell)
        if found is None:
            raise StatetraceError(f"'{run.path}' has no undamaged checkpoint; train it again")
        return found
    if step not in steps:
        raise StatetraceError(
            f"'{run.path}' has no checkpoint at step {step}; there are {', '.join(map(str, steps))}"
        )
    trouble = checkpoint_damage(run.checkpoint(step))
    if trouble:
        raise StatetraceError(f"checkpoint {run.checkpoint(step)} is damaged ({trouble})")
    return step, run.checkpoint(step)


def from_checkpoint(folder: Path, reading: ExternalCheckpoint, device: str = "auto") -> LoadedModel:
    """Any Hugging Face causal language model whose vocabulary holds the actions, or that was told
    them in words."""
    weights = fingerprint(folder)
    model = load_checkpoint(folder).to(pick_device(device))
    read = _in_words if reading.form == "text" else _in_tokens
    return replace(read(model, folder, reading), weights=weights)


def _in_tokens(model: Any, folder: Path, reading: ExternalCheckpoint) -> LoadedModel:
    """A model with a token for each action."""
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
    _check_causal(model, task, folder)
    return LoadedModel(model, task, folder)


def _in_words(model: Any, folder: Path, reading: ExternalCheckpoint) -> LoadedModel:
    """A model that reads text with the tokenizer in its folder."""
    of = group(reading.group, reading.notation)
    read = tokenizer.read(locate_tokenizer(str(folder)))
    if reading.padding == VISIBLE:
        told: Vocabulary = sentences(of, reading.paraphrases, reading.start_marker, read)
    else:
        wordings = reading.phrases or phrases.wordings(of, reading.paraphrases)
        start = reading.start_token
        if start is None and reading.start_marker:
            start = read.token_to_id(tokenizer.START)
        told = plain_text(of, wordings, read, reading.tokens, start)
    task = WordProblem(of, reading.length, told)
    check_fits(model, task, reading.length)
    if isinstance(told, PlainText):
        model = HiddenPadding(model, told.pad).eval()
        check_hidden(model, task, str(folder))
    _check_causal(model, task, folder)
    return LoadedModel(model, task, folder)


def _check_causal(model: Any, task: WordProblem, folder: Path) -> None:
    """Refuse a model whose earlier answers change with the last action: it looks ahead."""
    actions = torch.zeros(2, max(2, task.length), dtype=torch.long)
    actions[1, -1] = task.group.order - 1
    tokens = task.encode(actions.to(next(model.parameters()).device))
    earlier = task.vocabulary.tokens(actions.shape[1] - 1)
    with torch.no_grad():
        before = predict(model, tokens)[:, :earlier]
    if (before[0] - before[1]).abs().max() > 1e-5 * (1 + before.abs().max()):  # beyond rounding
        raise StatetraceError(
            f"the model in '{folder}' ({model.config.model_type}) looks ahead: its answers change "
            "with later actions; only causal language models can be looked at"
        )
