"""Named defaults for runs without a recipe.

`laptop` is for small groups on a CPU; docs/lab-notes.md says how its settings were found and which
groups and seeds learned with them. Most runs end early, when the task is learned. If
it is not learned at the last step, training continues. `paper` is the paper's model and
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

SIZES = (
    (6, 4, 32, 5e-3),
    (8, 4, 64, 2e-3),
    (12, 5, 64, 2e-3),
    (math.inf, 5, 64, 1e-3),
)
"""Largest order of a group, with the layers, width and learning rate that learn it."""

LARGE = 8
"""Order of a group above which a run has half as many steps again."""

# as the help shows it; `preset_recipe` fills in what depends on the task
LAPTOP: dict[str, Any] = {
    "length": 12,
    "layers": "4, 5 for more than 8 elements, or log2(length) if larger",
    "width": "32, 64 for more than 6 elements",
    "heads": 8,
    "dropout": 0.0,
    "init_std": 0.06,
    "steps": "700 + 700 per action, 1.5 times as many for more than 8 elements; fewer if it learns "
    "earlier",
    "most_steps": "up to twice as many if not learned by then, unless --steps is set",
    "learning_rate": "5e-3, 2e-3 or 1e-3 for up to 6, up to 12 and more elements",
    "schedule": "trapezoid",
    "warmup": 200,
    "grow": 0.5,
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
    layers, width, rate = next(size for limit, *size in SIZES if order <= limit)
    usual = 700 + 700 * length
    usual = usual * 3 // 2 if order > LARGE else usual
    steps = settings.get("steps", usual)
    sized = {
        "steps": steps,
        "most_steps": None if "steps" in settings else 2 * steps,
        "warmup": min(LAPTOP["warmup"], steps // 8),
        "layers": max(layers, math.ceil(math.log2(length))),
        "width": width,
        "learning_rate": rate,
    }
    return Recipe().override(LAPTOP | sized | dict(settings))
