"""Refuse a recipe that this machine cannot hold, before anything is allocated. Needs no torch.

The bounds are crude on purpose: the least that sequences, weights and one batch would take, against
the memory that is built in. A recipe that passes may still be too large, and fails later.
"""

from __future__ import annotations

import os

from statetrace.config.recipe import Recipe
from statetrace.errors import StatetraceError

SEQUENCES = 1_000_000
"""Unique sequences by default, 90% of them for training, as in the paper; all where there are
fewer."""
SHORT = 64
"""Lengths up to which there may be fewer sequences than that."""
BYTES_PER_PARAMETER = 16
"""In training: a float32 weight, its gradient and two moments."""


def check_memory(recipe: Recipe, most: int | None = None) -> None:
    """`most` is the memory of the machine in bytes, by default of this one."""
    most = most or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    task, model, training = recipe.task, recipe.model, recipe.training
    rows = task.sequences or (SEQUENCES if task.length > SHORT else 1)
    layers, width = model.layers or 1, model.width or 1
    parts = {
        f"{rows:,} sequences of length {task.length}": 2 * rows * task.length,
        f"{layers} layers of width {width}": BYTES_PER_PARAMETER * 12 * layers * width**2,
        f"a batch of {training.batch} sequences of length {task.length}, split into "
        f"{training.accumulate}": 4 * training.batch // training.accumulate * task.length * width,
    }
    for what, needed in parts.items():
        if needed > most:
            raise StatetraceError(
                f"{what} would take at least {_size(needed)}, and this machine has {_size(most)}; "
                "use smaller numbers"
            )


def _size(count: int) -> str:
    return f"{count / 1e9:,.0f} GB"
