"""From the words of a recipe to the objects of a run: task, data, model, precision."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from statetrace import __version__
from statetrace.config.recipe import Recipe
from statetrace.config.settings import ModelSettings
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.models import (
    ModelSpec,
    attends,
    build,
    check_label,
    layer_count,
    load_checkpoint,
    load_pretrained,
    locate_tokenizer,
    positions,
)
from statetrace.tasks import tokenizer
from statetrace.tasks.sentences import sentences
from statetrace.tasks.sequences import Sequences
from statetrace.tasks.word_problem import WordProblem, word_problem
from statetrace.training import fused as program
from statetrace.training.objectives import kind, make_objective
from statetrace.training.parallel import World

POSITIONS_AHEAD = 2
"""A model gets positions for this many training lengths, so that longer inputs can be tried."""


@dataclass(frozen=True)
class TrainingPlan:
    """A recipe that was found to make sense, and what it takes to follow it.

    `stage` is the one at hand; `at` gives the plan of another.
    """

    recipe: Recipe
    stage: Stage
    world: World
    task: WordProblem
    splits: tuple[Sequences, Sequences]
    quotients: tuple[Quotient, ...]
    autocast: AbstractContextManager[Any]

    def at(self, stage: Stage) -> TrainingPlan:
        return replace(self, stage=stage)


def make_plan(recipe: Recipe, world: World, states: Group | None = None) -> TrainingPlan:
    """Refuses, before any work, what cannot be done; `states` is the group that the recipe names,
    where the recipe alone does not determine it."""
    for stage in recipe.stages:
        world.check_shares(stage.training.batch, stage.training.accumulate)
    model_spec(recipe)
    be_deterministic(recipe, world.device)
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    task = make_task(recipe, states=states)
    plan = TrainingPlan(
        recipe=recipe,
        stage=recipe.stages[0],
        world=world,
        task=task,
        splits=make_splits(recipe, task),
        quotients=make_quotients(recipe, task),
        autocast=autocast(recipe, world.device),
    )
    for stage in recipe.stages:
        _refuse_program(recipe, _not_by_program(stage, world))
        auxiliary = make_objective(plan, stage).auxiliary
        if auxiliary is not None:
            auxiliary.layer_of(layer_count(model_spec(recipe)))
    return plan


def make_task(
    recipe: Recipe, trained: Path | None = None, states: Group | None = None
) -> WordProblem:
    """The task; one in words that a checkpoint folder was `trained` on takes its tokenizer."""
    wanted = recipe.task
    task = word_problem(
        states or wanted.group, wanted.length, wanted.actions, wanted.start_marker, wanted.notation
    )
    if wanted.form == "tokens":
        return task
    source = wanted.tokenizer or recipe.model.pretrained
    file = None if source is None else locate_tokenizer(source)
    if trained is not None and (trained / "tokenizer.json").is_file():
        file = trained / "tokenizer.json"
    read = None if file is None else tokenizer.read(file)
    told = sentences(task.group, wanted.paraphrases, wanted.start_marker, read)
    return replace(task, vocabulary=told)


def keeps_words(recipe: Recipe) -> bool:
    """Whether the words of a pretrained model mean the same in the task."""
    source, own = recipe.task.tokenizer, recipe.model.pretrained
    return recipe.task.form == "text" and own is not None and source in (None, own)


def make_splits(recipe: Recipe, task: WordProblem) -> tuple[Sequences, Sequences]:
    wanted = recipe.task
    folder = None if wanted.data is None else Path(wanted.data)
    return task.splits(wanted.sequences, wanted.analysis_fraction, wanted.data_seed, folder)


def model_spec(recipe: Recipe) -> ModelSpec:
    wanted = recipe.model
    return ModelSpec(
        name=wanted.name,
        layers=wanted.layers,
        width=wanted.width,
        heads=wanted.heads,
        dropout=wanted.dropout,
        init_std=wanted.init_std,
        pretrained=wanted.pretrained,
    )


def max_length(recipe: Recipe, task: WordProblem) -> int:
    """Tokens a model for this task must have positions for: also for longer inputs, as far as a
    pretrained model has them, but at least for those it is trained on."""
    wanted, needed = (task.vocabulary.tokens(n * task.length) for n in (POSITIONS_AHEAD, 1))
    there = positions(model_spec(recipe))
    if there is None:
        return wanted
    if there < needed:
        raise StatetraceError(
            f"length {task.length} takes {needed} tokens, but {recipe.model.pretrained!r} has "
            f"{there} positions; use length {task.vocabulary.fitting(there)} or less, or a model "
            "with more positions"
        )
    return min(wanted, there)


def make_model(plan: TrainingPlan, before: Path | None = None) -> Any:
    """The model a stage begins with, on the CPU in float32: a fresh one, from scratch or from
    pretrained weights, or that of the last checkpoint `before` it.

    From a stage with other words only the body is taken over; embedding and head are drawn anew,
    spread as widely as the old ones.
    """
    task, stage, wanted = plan.task, plan.stage, plan.recipe.model.init_seed
    seed = plan.recipe.training.seed if wanted is None else wanted
    size = make_objective(plan, stage).vocabulary.size
    if before is None:
        spec = model_spec(plan.recipe)
        if spec.name != ModelSettings.name:  # by default a name contradicts nothing
            check_label(spec)
        keep = keeps_words(plan.recipe) and kind(stage.wanted.objective).words == "elements"
        return build(spec, size, max_length(plan.recipe, task), seed, keep)
    names = [one.wanted.objective for one in plan.recipe.stages]
    if kind(names[stage.number - 1]).words == kind(names[stage.number]).words:
        return load_checkpoint(before)
    return load_pretrained(str(before), size, seed=seed, scale=1.0)


def make_quotients(recipe: Recipe, task: WordProblem) -> tuple[Quotient, ...]:
    """What evaluations report besides the state; parity where it tells less than the state."""
    wanted = recipe.evaluation.quotients
    if wanted == "none":
        return ()
    if wanted == "all":
        return task.group.quotients()
    if wanted == "parity" and (task.group.parity is None or task.group.order == 2):
        return ()  # in a group of two the state is its own parity
    return task.quotients(tuple(name.strip() for name in wanted.split(",")))


def precision(recipe: Recipe, device: torch.device) -> torch.dtype:
    """What matrix products are computed in."""
    wanted = recipe.training.precision
    if wanted == "auto":
        wanted = "bfloat16" if device.type == "cuda" else "float32"
    return torch.float32 if wanted == "float32" else torch.bfloat16


def autocast(recipe: Recipe, device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 autocast where it is wanted and safe."""
    if precision(recipe, device) == torch.float32:
        return nullcontext()
    if device.type == "cpu":
        raise StatetraceError(
            "precision 'bfloat16' on a CPU can end the process with an illegal instruction; "
            "use float32 there"
        )
    return torch.autocast(device.type, dtype=torch.bfloat16)


def wants_program(plan: TrainingPlan, config: Any, tokens: int) -> bool:
    """Whether a stage on sequences of so many tokens is trained by the program: by default on CUDA,
    where it can be."""
    settings, device = plan.recipe.training, plan.world.device
    reason = _not_by_program(plan.stage, plan.world)
    reason = reason or program.why_not(config, device, tokens, precision(plan.recipe, device))
    _refuse_program(plan.recipe, reason)
    return reason is None and (
        device.type == "cuda" if settings.program is None else settings.program
    )


def _refuse_program(recipe: Recipe, reason: str | None) -> None:
    """Where it was asked for and there is a reason against it."""
    if recipe.training.program and reason is not None:
        raise StatetraceError(f"program true is impossible here: {reason}; leave it out")


def _not_by_program(stage: Stage, world: World) -> str | None:
    """What about a stage, whatever its model, the program cannot do."""
    if world.size > 1:
        return f"there are {world.size} processes"
    if stage.training.accumulate > 1:
        return f"accumulate is {stage.training.accumulate}"
    return None


def wants_compile(plan: TrainingPlan, by_program: bool) -> bool:
    """By default on CUDA, but not where the program trains, the model is sharded, or it is a
    recurrent one, whose loop over the positions would be unrolled."""
    settings, world = plan.recipe.training, plan.world
    sharded = world.size > 1 and settings.parallel == "fsdp"
    if settings.compile is not None:
        return settings.compile
    able = world.device.type == "cuda" and not sharded and attends(model_spec(plan.recipe))
    return able and not by_program


WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "CUBLASLT_WORKSPACE_SIZE": "128"}
"""The smaller of the two sizes with which cuBLAS repeats itself, and the same in KiB for its light
sister: with the larger one a step of Pythia-160M by the program takes 0.15 ms longer."""


def be_deterministic(recipe: Recipe, device: torch.device) -> None:
    """Ask CUDA for kernels that repeat bit for bit; on a CPU they do anyway."""
    if device.type == "cuda":
        for name, value in WORKSPACE.items():
            os.environ.setdefault(name, value)
        torch.use_deterministic_algorithms(recipe.training.deterministic)
        # for finding bugs, and as costly as computing: new memory would be filled with NaN
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        # compiled kernels are otherwise chosen by timing them, and may differ from run to run
        from torch._inductor import config as inductor

        inductor.deterministic = recipe.training.deterministic


def surroundings(world: World) -> dict[str, Any]:
    """Versions and hardware, for run.json."""
    device = world.device
    versions = {"statetrace": __version__, "python": platform.python_version()}
    for name in ("torch", "transformers", "numpy", "safetensors"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = str(getattr(sys.modules.get(name), "__version__", "unknown"))
    cuda = device.type == "cuda"
    hardware = {
        "device": torch.cuda.get_device_name(device) if cuda else platform.machine() + " CPU",
        "processes": world.size,
        "threads": torch.get_num_threads(),
        "system": platform.system(),
    }
    return {"versions": versions, "hardware": hardware}
