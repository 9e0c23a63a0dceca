"""Preparation of a run: data, objectives, model, precision, determinism."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from statetrace import __version__
from statetrace.config.memory import check_memory
from statetrace.config.recipe import Recipe
from statetrace.config.settings import ModelSettings
from statetrace.config.stages import Stage
from statetrace.errors import StatetraceError
from statetrace.groups import Group, Quotient
from statetrace.models import (
    attends,
    build,
    check_label,
    layer_count,
    load_checkpoint,
    load_pretrained,
)
from statetrace.models.from_recipe import (
    data_fingerprint,
    keeps_vocabulary,
    make_splits,
    make_task,
    max_length,
    model_spec,
)
from statetrace.runs import source_commit
from statetrace.tasks.batch import Split
from statetrace.tasks.word_problem import WordProblem
from statetrace.training import fused
from statetrace.training.objectives import Objective, make_objective, objective_kind
from statetrace.training.parallel import World


@dataclass(frozen=True)
class TrainingPlan:
    """A validated recipe and everything that training it needs.

    Attributes:
        stage: the current stage; `at` gives the plan of another.
        training_split: the training sequences, on the device.
        analysis: the held-out sequences.
        objectives: of every stage, in order.
        data: fingerprint of a data folder, which could change before the run is resumed.
    """

    recipe: Recipe
    stage: Stage
    world: World
    task: WordProblem
    training_split: Split
    analysis: Split
    quotients: tuple[Quotient, ...]
    autocast: AbstractContextManager[Any]
    objectives: tuple[Objective, ...] = ()
    data: str | None = None

    @property
    def objective(self) -> Objective:
        return self.objectives[self.stage.number]

    def at(self, stage: Stage) -> TrainingPlan:
        return replace(self, stage=stage)

    def with_recipe(self, recipe: Recipe) -> TrainingPlan:
        """The plan of a recipe that differs in its seed alone; the sequences are shared."""
        plan = replace(self, recipe=recipe, stage=recipe.stages[0])
        return replace(plan, objectives=tuple(make_objective(plan, s) for s in recipe.stages))


def make_plan(recipe: Recipe, world: World, states: Group | None = None) -> TrainingPlan:
    """Check the whole recipe, all stages included, before any training. `states` is the group if
    the recipe has only its name."""
    check_memory(recipe)
    for stage in recipe.stages:
        world.check_shares(stage.training.batch, stage.training.accumulate)
    spec = model_spec(recipe)
    be_deterministic(recipe, world.device)
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    task = make_task(recipe, states=states)
    training, analysis = make_splits(recipe, task)
    plan = TrainingPlan(
        recipe=recipe,
        stage=recipe.stages[0],
        world=world,
        task=task,
        training_split=task.split(training, world.device),
        analysis=task.split(analysis[: recipe.evaluation.evaluate_sequences], world.device),
        quotients=make_quotients(recipe, task),
        autocast=autocast(recipe, world.device),
        data=data_fingerprint(recipe),
    ).with_recipe(recipe)
    for stage, objective in zip(recipe.stages, plan.objectives, strict=True):
        _check_fused_step(recipe, _unsupported_by_fused_step(stage, world))
        if objective.auxiliary is not None:
            objective.auxiliary.resolve_layer(layer_count(spec))
    return plan


def make_model(plan: TrainingPlan, previous: Path | None = None) -> Any:
    """The model a stage starts from, on the CPU in float32: a new one, random or pretrained, or
    that of the `previous` stage's last checkpoint.

    After a stage with a different vocabulary only the body is kept; embedding and head are redrawn
    with the mean and covariance of the old rows.
    """
    stage, init_seed = plan.stage, plan.recipe.model.init_seed
    seed = plan.recipe.training.seed if init_seed is None else init_seed
    size = plan.objective.vocabulary.size
    vocabularies = [objective_kind(s.settings.objective).vocabulary for s in plan.recipe.stages]
    current = vocabularies[stage.number]
    if previous is None:
        spec = model_spec(plan.recipe)
        if spec.name != ModelSettings.name:  # the default name contradicts nothing
            check_label(spec)
        keep = keeps_vocabulary(plan.recipe) and current == "elements"
        return build(spec, size, max_length(plan.recipe, plan.task), seed, keep)
    if vocabularies[stage.number - 1] == current:
        model = load_checkpoint(previous)
    else:
        model = load_pretrained(str(previous), size, seed=seed, scale=1.0)
    if stage.settings.shuffle:
        shuffle(model, stage.seed)
    return model


def shuffle(model: torch.nn.Module, seed: int) -> None:
    """Put the entries of every tensor in random order."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            order = torch.randperm(parameter.numel(), generator=random)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))


def make_quotients(recipe: Recipe, task: WordProblem) -> tuple[Quotient, ...]:
    """The quotients that evaluations report besides the state."""
    names = recipe.evaluation.quotients
    if names == "none":
        return ()
    if names == "all":
        return task.group.quotients()
    if names == "parity" and (task.group.parity is None or task.group.order == 2):
        return ()  # in a group of two the state is its own parity
    return task.quotients(tuple(name.strip() for name in names.split(",")))


def precision(recipe: Recipe, device: torch.device) -> torch.dtype:
    """The dtype of matrix products."""
    name = recipe.training.precision
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" else "float32"
    return torch.float32 if name == "float32" else torch.bfloat16


def autocast(recipe: Recipe, device: torch.device) -> AbstractContextManager[Any]:
    if precision(recipe, device) == torch.float32:
        return nullcontext()
    if device.type == "cpu":
        raise StatetraceError(
            "precision 'bfloat16' is not supported on a CPU, where it may crash with an illegal "
            "instruction; use float32"
        )
    return torch.autocast(device.type, dtype=torch.bfloat16)


def use_fused_step(plan: TrainingPlan, config: Any, tokens: int) -> bool:
    """Whether a stage on sequences of `tokens` tokens uses the fused training step: by default
    wherever CUDA and the model allow it."""
    settings, device = plan.recipe.training, plan.world.device
    reason = _unsupported_by_fused_step(plan.stage, plan.world) or fused.unsupported_reason(
        config, device, tokens, precision(plan.recipe, device)
    )
    _check_fused_step(plan.recipe, reason)
    requested = device.type == "cuda" if settings.program is None else settings.program
    return reason is None and requested


def _check_fused_step(recipe: Recipe, reason: str | None) -> None:
    if recipe.training.program and reason is not None:
        raise StatetraceError(f"program = true is not supported here: {reason}; leave it out")


def _unsupported_by_fused_step(stage: Stage, world: World) -> str | None:
    """Why a stage cannot use the fused training step, whatever its model."""
    if world.size > 1:
        return f"there are {world.size} processes"
    if stage.training.accumulate > 1:
        return f"accumulate is {stage.training.accumulate}"
    return None


def use_compile(plan: TrainingPlan, uses_fused_step: bool) -> bool:
    """By default on CUDA, except with the fused training step, a sharded model, or a recurrent one,
    whose loop over positions would be unrolled."""
    settings, world = plan.recipe.training, plan.world
    if settings.compile is not None:
        return settings.compile
    sharded = world.size > 1 and settings.parallel == "fsdp"
    compilable = world.device.type == "cuda" and not sharded and attends(model_spec(plan.recipe))
    return compilable and not uses_fused_step


WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "CUBLASLT_WORKSPACE_SIZE": "128"}
"""The smaller of the two sizes with which cuBLAS is deterministic, and the same in KiB for
cuBLASLt: with the larger one a fused training step of Pythia-160M takes 0.15 ms longer."""


def be_deterministic(recipe: Recipe, device: torch.device) -> None:
    """Choose CUDA kernels that repeat bit for bit; on a CPU all do."""
    if device.type == "cuda":
        for name, value in WORKSPACE.items():
            os.environ.setdefault(name, value)
        torch.use_deterministic_algorithms(recipe.training.deterministic)
        # a debugging aid that costs as much as computing: it fills new memory with NaN
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        # compiled kernels are otherwise chosen by timing them, and may differ from run to run
        from torch._inductor import config as inductor

        inductor.deterministic = recipe.training.deterministic


def environment(world: World) -> dict[str, Any]:
    """Versions and hardware, for run.json."""
    device = world.device
    versions = {"statetrace": __version__, "commit": source_commit(),
                "python": platform.python_version()}  # fmt: skip
    versions |= {name: _version(name) for name in ("torch", "transformers", "numpy", "safetensors")}
    cuda = device.type == "cuda"
    hardware = {
        "device": torch.cuda.get_device_name(device) if cuda else platform.machine() + " CPU",
        "processes": world.size,
        "threads": torch.get_num_threads(),
        "system": platform.system(),
    }
    return {"versions": versions, "hardware": hardware}


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return str(getattr(sys.modules.get(name), "__version__", "unknown"))
