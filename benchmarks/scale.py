"""The cost of the paper's sweeps in GPU-hours, estimated from one measured training step.

A step of Pythia-160M (128 sequences of 100 actions, bfloat16) takes 13.7 ms on one H200.
Other models and lengths are taken to cost in proportion to parameters in their blocks and to
tokens, which is too little for small models (a step is never free) and about right for large ones.

    python benchmarks/scale.py       # seconds; no GPU needed
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from statetrace.config.recipe import Recipe
from statetrace.models import parameter_count
from statetrace.models.from_recipe import model_spec
from statetrace.studies.grid import read_study

MEASURED = 0.0137
"""Seconds per step, measured."""

WORDS = 8
"""Tokens of an action of S3 in natural language."""

RECIPES = Path(__file__).parents[1] / "recipes"


def main() -> None:
    reference = blocks(Recipe().override({"model": "pythia-160m"}).model.name)
    tokens = 128 * 100
    print(f"{'study':<28} {'cells':>6} {'early verdict':>14} {'to the end':>11}   (GPU-hours)")
    totals = [0.0, 0.0]
    for file in (*RECIPES.glob("studies/*.toml"), *sorted(RECIPES.glob("paper/*.toml"))):
        if "base" not in tomllib.loads(file.read_text()):
            continue  # the toy, a run, or a study that shares the cells of another
        plan = read_study(file)
        if plan.cells[0].recipe["training"]["device"] == "cpu":
            continue  # for a laptop
        hours = [0.0, 0.0]
        for cell in plan.cells:
            recipe = Recipe.of(dict(cell.recipe))
            for stage in recipe.stages:
                share = blocks(recipe.model.name) / reference
                share *= stage.training.batch * stage.length / tokens
                share *= WORDS if recipe.task.form == "text" else 1
                steps = stage.training.steps
                early = min(steps, plan.settings.early) if stage.last else steps
                for number, count in enumerate((early, steps)):
                    hours[number] += count * share * MEASURED / 3600
        totals = [a + b for a, b in zip(totals, hours, strict=True)]
        print(f"{file.stem:<28} {len(plan.cells):>6} {hours[0]:>14.1f} {hours[1]:>11.1f}")
    print(f"{'all':<28} {'':>6} {totals[0]:>14.1f} {totals[1]:>11.1f}")


@cache
def blocks(model: str) -> int:
    """Parameters in the blocks; of a pretrained model those of its published size."""
    spec = model_spec(Recipe().override({"model": model}))
    return parameter_count(spec, 7, 201).blocks


if __name__ == "__main__":
    main()
