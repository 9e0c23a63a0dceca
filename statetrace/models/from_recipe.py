"""From a recipe to its task, its sequences and its model spec."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError
from statetrace.files import digest
from statetrace.groups import Group
from statetrace.models.build import positions
from statetrace.models.checkpoint import locate_tokenizer
from statetrace.models.spec import ModelSpec
from statetrace.tasks import tokenizer
from statetrace.tasks.sentences import sentences
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.vocabulary import Vocabulary
from statetrace.tasks.word_problem import WordProblem, word_problem

POSITION_FACTOR = 2
"""A model gets positions for this many training lengths, so that longer inputs can be tested."""


def make_task(
    recipe: Recipe, checkpoint: Path | None = None, states: Group | None = None
) -> WordProblem:
    """The task of a recipe. For text, the tokenizer of a `checkpoint` folder takes precedence;
    opening a checkpoint fetches nothing. `states` is the group if the recipe has only its name."""
    settings = recipe.task
    task = word_problem(
        states or settings.group,
        settings.length,
        settings.actions,
        settings.start_marker,
        settings.notation,
        settings.own_first_token,
    )
    if settings.form == "tokens":
        return task
    source = settings.tokenizer or recipe.model.pretrained
    if checkpoint is not None and (checkpoint / "tokenizer.json").is_file():
        file: Path | None = checkpoint / "tokenizer.json"
    else:
        file = None if source is None else locate_tokenizer(source, fetch=checkpoint is None)
    read = None if file is None else tokenizer.read(file)
    vocabulary = sentences(task.group, settings.paraphrases, settings.start_marker, read)
    return replace(task, vocabulary=vocabulary)


def make_splits(recipe: Recipe, task: WordProblem) -> tuple[Sequences, Sequences]:
    """Training and analysis sequences."""
    return task.splits(*_split_arguments(recipe))


def make_analysis_split(recipe: Recipe, task: WordProblem) -> Sequences:
    """The second of `make_splits` alone, which is cheaper; runs that differ in their seed share
    it."""
    arguments = _split_arguments(recipe)
    if recipe.task.data is not None:  # files may change
        return task.analysis_split(*arguments)
    return _drawn_split(task.group, task.length, task.actions, arguments)


@lru_cache(maxsize=1)
def _drawn_split(
    group: Group, length: int, actions: tuple[int, ...] | None, arguments: SplitArguments
) -> Sequences:
    task = WordProblem(group, length, Vocabulary.plain(group.order, False), actions)
    return task.analysis_split(*arguments)


SplitArguments = tuple[int | None, float, int, Path | None]


def _split_arguments(recipe: Recipe) -> SplitArguments:
    settings = recipe.task
    folder = None if settings.data is None else Path(settings.data)
    return settings.sequences, settings.analysis_fraction, settings.data_seed, folder


def data_fingerprint(recipe: Recipe) -> str | None:
    """Of the files of a data folder, which could change before a run is resumed."""
    if recipe.task.data is None:
        return None
    files = sorted(file for file in Path(recipe.task.data).iterdir() if file.is_file())
    lines = "".join(f"{file.name} {digest(file)}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def model_spec(recipe: Recipe) -> ModelSpec:
    return ModelSpec(**vars(recipe.model))


def keeps_vocabulary(recipe: Recipe) -> bool:
    """Whether the task is written in the tokens of the pretrained model."""
    source, pretrained = recipe.task.tokenizer, recipe.model.pretrained
    return recipe.task.form == "text" and pretrained is not None and source in (None, pretrained)


def max_length(recipe: Recipe, task: WordProblem) -> int:
    """Tokens a model of this task needs positions for: `POSITION_FACTOR` training lengths, or as
    many as a pretrained model has, if those cover one training length."""
    desired, required = (task.vocabulary.tokens(n * task.length) for n in (POSITION_FACTOR, 1))
    available = positions(model_spec(recipe))
    if available is None:
        return desired
    if available < required:
        raise StatetraceError(
            f"length {task.length} takes {required} tokens, but {recipe.model.pretrained!r} has "
            f"{available} positions; use length {task.vocabulary.fitting(available)} or less, or a "
            "model with more positions"
        )
    return min(desired, available)
