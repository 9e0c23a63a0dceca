"""The public functions besides `load`: train, compile, report, signatures and study."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrace.api.model import TrackedModel
from statetrace.api.results import Signatures, StudyResults
from statetrace.config.checks import as_path, known, need
from statetrace.errors import StatetraceError
from statetrace.groups import Group, group_name
from statetrace.runs import OnMessage, Run, no_message

if TYPE_CHECKING:
    from statetrace.config.recipe import Recipe
    from statetrace.studies.survey import CellState
    from statetrace.training.callback import Callback

WORTH_MEASURING = 100
"""Steps from which on it pays to find the best number of threads."""


def train(
    recipe: str | Path | Recipe | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    preset: str | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> TrackedModel:
    """Train a model and return it: `st.train(group="S3", length=12)` takes minutes on a laptop.

    Args:
        recipe: a TOML file, a name such as "demo", or a Recipe.
        out: the run folder; without one, a temporary folder that lives as long as the model.
        resume: continue the run in `out`, bit for bit, if it has one. A larger `steps` prolongs it.
        preset: without a recipe, where other settings come from: "laptop" (small models that learn
            in minutes on a CPU; the default) or "paper" (the default if the settings name a model).
        callback: called at every step, evaluation and message (training/callback.py).
        settings: any option of `statetrace train`, such as group="S3", length=12, steps=500.
    """
    import torch

    from statetrace.training import loop
    from statetrace.training.callback import Callback

    need(
        callback is None or isinstance(callback, Callback),
        f"callback must be a statetrace.training.callback.Callback, not {callback!r}",
    )
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="statetrace-")
        out = Path(temporary.name) / "run"
    folder = as_path("out", out)
    states = settings.get("group")
    states = states if isinstance(states, Group) else None
    if states is not None:
        settings["group"] = group_name(states)
    resolved = resolve_recipe(recipe, folder, resume, settings, preset, states)
    loop.check_folder(resolved, Run(folder), resume)
    threads = torch.get_num_threads()
    try:
        _estimate(resolved, Run(folder), callback, states)
        outcome = loop.train(resolved, Run(folder), callback, resume, states)
    finally:
        torch.set_num_threads(threads)
    model = TrackedModel(Run(folder), name=str(out), device=resolved.training.device)
    model.outcome, model._temporary = outcome, temporary
    return model


def _estimate(recipe: Recipe, run: Run, callback: Callback | None, states: Group | None) -> None:
    """Choose the number of CPU threads, and tell the callback what the run will cost."""
    from statetrace.training.cost import estimate

    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        return
    recorded = run.info.get("hardware", {}).get("threads") if run.exists() else None
    if recorded is not None:  # the order of sums depends on it
        recorded = min(recorded, os.cpu_count() or 1)
    if callback is not None or recipe.training.steps >= WORTH_MEASURING:
        cost = estimate(recipe, states, recorded)
        if callback is not None:
            callback.on_estimate(cost)


def resolve_recipe(
    recipe: str | Path | Recipe | None,
    out: Path | None,
    resume: bool,
    settings: Mapping[str, Any],
    preset: str | None = None,
    states: Group | None = None,
) -> Recipe:
    """The recipe with `settings` applied, without one that of a preset; a resumed run uses the
    recipe it was started with. `states` is the group if the settings have only its name."""
    from statetrace.config.memory import check_memory
    from statetrace.config.presets import preset_recipe
    from statetrace.config.recipe import Recipe

    if recipe is None and resume and out is not None and Run(out).exists():
        recipe = Recipe.of(Run(out).recipe, f"{out}/run.json")
    if recipe is None:
        resolved = preset_recipe(settings, preset, states)
    elif preset is not None:
        raise StatetraceError(f"preset '{preset}' has no effect with a recipe; leave one out")
    else:
        if not isinstance(recipe, Recipe):
            recipe = Recipe.read(as_path("recipe", recipe))
        resolved = recipe.override(dict(settings))
    check_memory(resolved)
    return resolved


def compile(  # the builtin is not used here
    algorithm: str = "associative",
    group: str | Group = "S3",
    length: int = 16,
    *,
    out: str | Path | None = None,
    **options: Any,
) -> TrackedModel:
    """A transformer whose weights are computed so that it runs a known algorithm.

    Args:
        algorithm: "sequential", "parallel", "associative", "parity-associative" or another one of
            `statetrace compile`.
        out: a folder to save it in; it is a Hugging Face checkpoint and a run folder.
        options: any other option of `statetrace compile`, such as noise=0.01 or seed=3.

    Examples:
        >>> import statetrace as st
        >>> st.compile("associative", "S3", length=4).verdict().mechanism
        'associative'
    """
    from statetrace.config.compile_spec import CompileSpec
    from statetrace.lenses.compiled import save_compiled, task_of
    from statetrace.lenses.loading import LoadedModel
    from statetrace.models.compiled import compile_model

    names = [each.name for each in dataclasses.fields(CompileSpec)]
    for option in options:
        known(option, names, "option", "compile")
    spec = CompileSpec(algorithm=algorithm, group=group, length=length, **options)  # type: ignore[arg-type]
    model = compile_model(spec)
    if out is not None:
        folder = as_path("out", out)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StatetraceError(f"'{out}' already exists; choose another folder")
        return TrackedModel(save_compiled(model, spec, folder), name=str(out))
    return TrackedModel(LoadedModel(model, task_of(spec)), name=f"compiled {spec.title}")


def report(models: Iterable[TrackedModel | str | Path] | TrackedModel, path: str | Path) -> Path:
    """Write one HTML page with the verdicts and every figure, models side by side.

    Args:
        models: tracked models, run folders or study folders.
    """
    from statetrace.reports.page import write_report

    page = as_path("path", path)
    if page.is_dir():
        raise StatetraceError(f"'{path}' is a folder; name a file, such as report.html")
    several: list[Any] = [models]
    if isinstance(models, Iterable) and not isinstance(models, str):
        several = list(models)
    sources = [
        m._for_report() if isinstance(m, TrackedModel) else as_path("a run folder", m)
        for m in several
    ]
    write_report(sources, page)
    return page


def signatures(
    group: str | Group = "S3",
    length: int = 32,
    *,
    algorithms: Sequence[str] | None = None,
    quotient: str | None = None,
    stride: int | None = None,
    pairs: int = 200,
    seed: int = 0,
) -> Signatures:
    """Predict the patching and probing results of each algorithm; no model is involved.

    Args:
        algorithms: by default the paper's four; others are "composed-quotient", "strided" and
            "chunked".
        quotient: the quotient that parity-associative or composed-quotient computes first, if not
            parity.
        stride: actions per layer of a strided fold, or per chunk of a chunked one.
        pairs: pairs of sequences for patching.

    Examples:
        >>> import statetrace as st
        >>> st.signatures("S3", length=8)["associative"].restores()
        [8, 4, 2, 1]
    """
    from statetrace.config.checks import check_seed
    from statetrace.groups import group as resolve_group
    from statetrace.mechanisms.signatures import predict_all

    check_seed("seed", seed)
    states = resolve_group(group)
    predictions = predict_all(states, length, pairs, seed, quotient, algorithms, stride)
    return Signatures(states, length, predictions)


def study(
    file: str | Path,
    out: str | Path,
    *,
    engine: str = "local",
    jobs: int | None = None,
    gpus_per_run: float | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    on_update: Callable[[tuple[CellState, ...]], None] = lambda states: None,
    on_message: OnMessage = no_message,
) -> StudyResults:
    """Train every cell of a study and compute its verdict. The call can be killed at any time; the
    same call continues.

    Args:
        file: a study: a TOML file or a name, such as "studies/toy".
        out: the study folder.
        engine: where runs are trained, "local" processes or "ray".
        jobs: runs at once; by default as many as cores or GPUs allow.
        gpus_per_run: share of a GPU for each run; 0.25 puts four on one.
        address: for Ray, an existing cluster; by default one is started.
        retry_failed: also try failed cells again.
        on_update: called repeatedly with the state of every cell.
    """
    from statetrace.studies.engines import check_engine, make_pool
    from statetrace.studies.folder import prepare_study
    from statetrace.studies.supervise import supervise

    check_engine(engine, jobs, gpus_per_run, address)
    for name, function in (("on_update", on_update), ("on_message", on_message)):
        need(callable(function), f"{name} must be a function, not {function!r}")
    prepared = prepare_study(as_path("file", file), as_path("out", out), retry_failed, on_message)
    pool = make_pool(engine, prepared, jobs, gpus_per_run, address)
    supervise(prepared, pool, on_update, on_message)
    return StudyResults(prepared)
