"""Named defaults for runs without a recipe.

`laptop` was found by search (docs/lab-notes.md): with it S3 at lengths 12 and 16 and Z6, D4, A4 and
S4 at length 8 are learned in minutes on a CPU. `paper` is the paper's model and optimization.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from statetrace.config.checks import one_of
from statetrace.config.recipe import Recipe

if TYPE_CHECKING:
    from statetrace.groups import Group

PRESETS = ("laptop", "paper")

# as the help shows it; `preset_recipe` fills in what depends on the task
LAPTOP: dict[str, Any] = {
    "length": 12,
    "layers": "4, or log2(length)",
    "width": 64,
    "heads": 4,
    "dropout": 0.0,
    "init_std": 0.06,
    "steps": "by group and length",
    "batch": 128,
    "learning_rate": 3e-3,
    "schedule": "trapezoid",
    "warmup": "a quarter of the steps",
    "grow": 0.4,
    "weight_decay": 0.1,
    "beta2": 0.99,
    "stop_learned": 0.99,
    "evaluate_every": 100,
    "checkpoint_every": 500,
}


def preset_recipe(
    settings: Mapping[str, Any], preset: str | None = None, states: Group | None = None
) -> Recipe:
    """A recipe of `settings` and, for all others, a preset: by default `laptop`, or `paper` where
    the settings name a model. `states` is the group if the settings have only its name."""
    from statetrace.groups import group

    given = Recipe().override(dict(settings))  # checks them
    if preset is None:
        preset = "paper" if {"model", "pretrained"} & settings.keys() else "laptop"
    one_of("preset", preset, PRESETS)
    if preset == "paper":
        return given
    task = given.task
    length = settings.get("length", LAPTOP["length"])
    order = (states or group(task.group, task.notation)).order
    steps = settings.get("steps", 500 + 150 * length + 140 * order)
    sized = {
        "steps": steps,
        "warmup": steps // 4,
        "layers": max(4, math.ceil(math.log2(length))),
    }
    return Recipe().override(LAPTOP | sized | dict(settings))
