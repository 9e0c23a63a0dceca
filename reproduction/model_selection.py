"""Models that were looked at one by one: which there are, and which of them answers a claim.

A claim names a mechanism (A, P, S5_A or S5_P); the first model below that has what its measure
reads is taken, so that a model of the paper's size goes before the zoo's small one as soon as it
lies in results/, and for one lens alone where no other was kept.

Cost: a few small files. Needs no torch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from reproduction.measured import Measure, Measured
from reproduction.results import Missing, Results, lens_file
from statetrace.lenses.result import NAMES, WHOLE

Settings = ParamSpec("Settings")
Made = TypeVar("Made")

A, P = "s3-associative", "s3-parity-associative"
"""S3, one of each mechanism; in the zoo a model of that name."""
S5_A, S5_P = "s5-associative", "s5-parity-associative"
LARGE = ("gpt2-", "pythia-160m-")
"""How folders of models of the paper's size begin; they end in the mechanism's name."""
NEARLY = 0.95
"""Share of the training length up to which a model must know the state to count as trained."""
TEXT = "text-scratch"
"""How folders of models that read sentences begin, from scratch; one for each seed."""
MADE_BY = {"s5-four-": "tiny-s5", "s5-": "small-s5", TEXT: "tiny-text"}
MADE_BY |= dict.fromkeys(LARGE, "scratch")
"""How folders begin, and the study whose runs they show."""
PAA_ZOO = (P, "s3-no-marker", "s3-rotary")
"""All of the zoo that are parity-associative."""


def zoo(name: str) -> str:
    """Its folder in results/."""
    return f"zoo/{name}"


def recipe_of(name: str) -> str | None:
    """The study of recipes/ that made what a folder of results/ shows, or None."""
    made = (study for prefix, study in MADE_BY.items() if name.startswith(prefix))
    study = next(made, name if "/" not in name else None)
    return None if study is None else f"recipes/studies/{study}.toml"


def candidates(found: Results, model: str) -> tuple[str, ...]:
    """Folders of results/ that may answer for a mechanism, the best first: of the paper's size the
    one trained longest; a folder for itself. Of S5 all folders that begin with s5- and end in the
    mechanism's name."""
    if model in (A, P):
        large = _ending(found, LARGE, model == P)
        return (*sorted(large, key=lambda name: -(steps_of(found, name) or 0)), zoo(model))
    if model in (S5_A, S5_P):
        return tuple(_ending(found, ("s5-",), model == S5_P))
    return (model,)


def _ending(found: Results, prefixes: tuple[str, ...], parity: bool) -> list[str]:
    """Folders that begin in one of these ways and end in parity-associative, or associative."""
    named = [name for prefix in prefixes for name in found.folders(prefix)]
    return [
        name
        for name in named
        if name.endswith("-associative") and name.endswith("-parity-associative") == parity
    ]


def first(found: Results, model: str, make: Callable[[str], Made]) -> tuple[str, Made]:
    """The first folder for a mechanism of which something can be made, and what was made."""
    for name in candidates(found, model):
        try:
            return name, make(name)
        except Missing:
            continue
    raise Missing(f"no model '{model}' in results/ has what is asked for")


def large_ones(found: Results, model: str, file: str) -> tuple[str, ...]:
    """Folders of all models of the paper's size that have this file, one for each run."""
    there = [
        name
        for name in candidates(found, model)
        if name != zoo(model) and found.exists(f"results/{name}/{file}")
    ]
    return tuple(_one_each(found, there))


def of_best(
    make: Callable[Concatenate[str, Settings], Measure],
) -> Callable[Concatenate[str, Settings], Measure]:
    """A measure of one folder as one of a mechanism: of the best model that has what it reads."""

    @functools.wraps(make)
    def chosen(model: str, /, *args: Settings.args, **kwargs: Settings.kwargs) -> Measure:
        def measure(found: Results) -> Measured:
            def of(name: str) -> Measured:
                return make(name, *args, **kwargs)(found)

            name, measured = first(found, model, of)
            lenses = {Path(source).stem for source in measured.sources}
            said = about(found, name, shorter=not lenses <= WHOLE)
            large = at_size(found, name)
            others = _others(found, model, name, of) if large else ()
            return replace(measured, size=said, at_size=large, others=others)

        return measure

    return chosen


def _others(
    found: Results, model: str, chosen: str, of: Callable[[str], Measured]
) -> tuple[tuple[float, str], ...]:
    """The number of the other models of the paper's size, of each run at its latest."""
    told = []
    for name in _one_each(found, [chosen, *candidates(found, model)])[1:]:
        with contextlib.suppress(Missing):
            value = of(name).value if at_size(found, name) else None
            told += [] if value is None else [(value, short(found, name))]
    return tuple(told)


def _one_each(found: Results, names: Iterable[str]) -> list[str]:
    """Of folders that show one run at several steps, the first."""
    runs: dict[Any, str] = {}
    for name in names:
        recipe = _recipe(found, name)
        which = (recipe["model"]["name"], recipe["training"]["seed"]) if recipe else name
        runs.setdefault(which, name)
    return list(runs.values())


def at_size(found: Results, name: str) -> bool:
    """Whether it is a published size at the paper's length; by its folder, if it was not trained
    here and its recipe is not known."""
    recipe = _recipe(found, name)
    if recipe is None:
        return name.startswith(LARGE)
    sizes = (recipe["model"]["layers"], recipe["model"]["width"])
    return sizes == (None, None) and recipe["task"]["length"] >= 100


def about(found: Results, name: str, shorter: bool = True) -> str:
    """Which model: "gpt2 from scratch, S3, after 10,000 of 140,625 steps on length 100, looked at
    up to length 30" (the last if `shorter` sequences are what was looked at); "" for the zoo, whose
    recipes say it."""
    if name.startswith("zoo/"):
        return ""
    recipe, length, step = _recipe(found, name), looked_at(found, name), steps_of(found, name)
    if recipe is None:
        return f"{name}, length {length}" if length else name
    model, task, planned = recipe["model"], recipe["task"], recipe["training"]["steps"]
    parts = [model["name"] + ("" if model["layers"] or model["pretrained"] else " from scratch")]
    parts += [f"{model['layers']} layers"] if model["layers"] else []
    parts += [f"width {model['width']}"] if model["width"] else []
    parts += [task["group"] + (" in words" if task.get("form") == "text" else "")]
    if "," in task.get("actions", ""):
        parts[-1] += f" by {task['actions'].count(',') + 1} actions"
    parts += taught_before(recipe)
    if step is not None:
        said = f"{step:,} steps" if step >= planned else f"{step:,} of {planned:,} steps"
        parts += [f"after {said} on length {task['length']}"]
    else:
        parts += [f"length {task['length']}"]
    if shorter and length is not None and length != task["length"]:
        parts += [f"looked at up to length {length}"]
    return ", ".join(parts)


def taught_before(recipe: dict[str, Any]) -> list[str]:
    """In words, what a run's recipe has it learn before the state, or beside it."""
    stages = recipe.get("stage") or []
    words = [f"first taught {one['objective']}" for one in stages if one["objective"] != "state"]
    beside = (one.get("auxiliary") for one in stages)
    return words + [f"with a classifier of {what}" for what in beside if what]


def sized(found: Results, made: Measured, names: list[str]) -> Measured:
    """With the models it is of, and whether all of them are of the paper's size."""
    said = "; ".join(dict.fromkeys(about(found, name) for name in names))
    return replace(made, size=said, at_size=all(at_size(found, name) for name in names))


def short(found: Results, name: str) -> str:
    """A few words for a picture's panel; "" for the zoo."""
    recipe, step = _recipe(found, name), steps_of(found, name)
    if recipe is None or step is None:
        return "" if name.startswith("zoo/") else name
    return f"{recipe['model']['name']}, step {step:,}"


def looked_at(found: Results, name: str) -> int | None:
    """The length its lenses looked at, which may be shorter than what it is trained on: while it
    still learns, only short sequences have right answers."""
    for lens in ("patching", "geometry", "attention"):
        file = lens_file(name, lens, "json")
        length = found.json(file)["summary"].get("length") if found.exists(file) else None
        if length is not None:
            return int(length)
    return None


def steps_of(found: Results, name: str) -> int | None:
    """Training steps of the checkpoint looked at, where they are known."""
    for lens in NAMES:
        file = lens_file(name, lens, "json")
        if found.exists(file):
            kept = found.json(file)
            step = kept.get("subject", {}).get("step", kept["summary"].get("last_step"))
            if step is not None:
                return int(step)
    return None


def need_converged(found: Results, name: str) -> None:
    """Refuse a model that was looked at before the end of its training, unless it knew the state up
    to nearly all of its length: what it cannot do yet says nothing about what it will not do."""
    recipe, step = _recipe(found, name), steps_of(found, name)
    if recipe is None or step is None or step >= recipe["training"]["steps"]:
        return
    summary = found.json(lens_file(name, "generalization", "json"))["summary"]
    end = summary["cutoff"]["state"]["first_below"] or summary["longest"] + 1
    if end < NEARLY * recipe["task"]["length"]:
        raise Missing(f"'{name}' was looked at before the end of its training")


def group_of(found: Results, name: str) -> str:
    """The group it was trained on; that of the zoo where its recipe is a file."""
    recipe = _recipe(found, name)
    return str(recipe["task"]["group"]) if recipe else "S3"


def _recipe(found: Results, name: str) -> dict[str, Any] | None:
    file = f"results/{name}/run.json"
    recipe = found.json(file).get("recipe") if found.exists(file) else None
    return recipe if isinstance(recipe, dict) else None  # of the zoo it is a file's name
