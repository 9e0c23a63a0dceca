"""Named defaults for runs without a recipe.

`laptop` is for small groups on a CPU; what it was found by and which groups it was seen to learn is
in docs/lab-notes.md. For S3 at length 12 it is the demo's recipe. `paper` is the paper's model and
optimization.
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

SMALL = 8
"""Order up to which a group is learned by a model of width 32."""

# as the help shows it; `preset_recipe` fills in what depends on the task
LAPTOP: dict[str, Any] = {
    "length": 12,
    "layers": "4, or log2(length) if larger",
    "width": "32, or 128 for more than 8 elements",
    "heads": "8, or 16 for width 128",
    "dropout": 0.0,
    "init_std": 0.06,
    "steps": "500 + 500 per action, or more",
    "learning_rate": "5e-3, or 1e-3 for width 128",
    "schedule": "trapezoid",
    "warmup": 200,
    "grow": 0.7,
    "weight_decay": 0.1,
    "beta2": 0.99,
    "stop_learned": 0.99,
    "evaluate_every": 250,
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
    small = order <= SMALL
    steps = settings.get("steps", 500 + 500 * length + (1000 if order > 6 else 0))
    sized = {
        "steps": steps,
        "warmup": min(LAPTOP["warmup"], steps // 8),
        "layers": max(4, math.ceil(math.log2(length))),
        "width": 32 if small else 128,
        "heads": 8 if small else 16,
        "learning_rate": 5e-3 if small else 1e-3,
    }
    return Recipe().override(LAPTOP | sized | dict(settings))
