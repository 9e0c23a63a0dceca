"""Study folders for the report's tests: a real plan, with outcomes and logs nobody trained for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statetrace.studies.folder import FINISHED, Study
from statetrace.studies.grid import read_study

LENGTH = 8
CURRICULA = """
seeds = 2
verdict = "quick"

[settings]
group = "S3"
length = 8
layers = 2
width = 32
heads = 4

[grid]
model = ["gpt2", "pythia"]

[grid.regime.plain]

[grid.regime."<b>topic"]
stages = [{ objective = "topic", table = "paper-1", steps = 10 }, { objective = "state" }]

[grid.regime.length]
stages = [
    { objective = "state", length = 2, steps = 10 },
    { objective = "state", length = 4, steps = 10 },
    { objective = "state" },
]
"""
SIZES = """
seeds = 3
verdict = "quick"

[[grid]]
family = { gpt2 = {} }

[grid.size]
small = { model = "distilgpt2" }
large = { model = "gpt2-xl" }

[[grid]]
family = { pythia = {} }

[grid.size]
small = { model = "pythia-70m" }
large = { model = "pythia-1b" }
"""
PARAMETERS = {
    "distilgpt2": 82_000_000,
    "gpt2-xl": 1_558_000_000,
    "pythia-70m": 70_000_000,
    "pythia-1b": 1_012_000_000,
    "gpt2": 124_000,
    "pythia": 130_000,
}


def learned(levels: dict[str, Any]) -> str:
    """As in the paper: topics lead to one mechanism, and without them pythia goes to the other."""
    family = str(levels.get("family", levels.get("model")))
    if levels.get("regime") == "<b>topic":
        return "associative"
    odd = int(levels["seed"]) % 2 == 1
    return "parity-associative" if odd or family == "pythia" else "associative"


def make_study(folder: Path, text: str = CURRICULA, unfinished: int = 0) -> Path:
    """All runs have ended, but for the last `unfinished` ones."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "study.toml"
    file.write_text(text)
    study = Study.prepare(folder, read_study(file))
    cells = study.plan.cells
    for cell in cells[: len(cells) - unfinished]:
        mechanism = learned(dict(cell.levels))
        cost = {"seconds": 1.0, "device": "cpu", "parameters": PARAMETERS[_model(cell)]}
        final = {"step": 10, "quick": mechanism, "accuracy": 1.0, "parity_accuracy": 1.0}
        final |= {"cutoff": 10, "longest": 16}
        final["parity_cutoff"] = 10 if mechanism == "associative" else None
        study.end(cell, FINISHED, {"final": final, "cost": cost})
        run = study.run(cell)
        run.path.mkdir(parents=True)
        run.write_info({"format": 1, "recipe": dict(cell.recipe)})
        for number, stage in enumerate(cell.recipe.get("stage") or ()):
            record = evaluation(stage.get("length", LENGTH), mechanism)
            run.append(record | {"stage": f"{number + 1}-{stage['objective']}"})
    return folder


def evaluation(trained: int, mechanism: str) -> dict[str, Any]:
    """Right up to the length trained on and, by association, twice as far."""
    reach = 2 * trained if mechanism == "associative" else trained
    right = [1.0 if n <= reach else 0.3 for n in range(1, LENGTH + 1)]
    by_length = {"state": right, "parity": [max(0.6, share) for share in right]}
    mean = {what: sum(shares) / LENGTH for what, shares in by_length.items()}
    return {
        "kind": "evaluation",
        "step": 10,
        "loss": 1.0,
        "accuracy": mean,
        "accuracy_by_length": by_length,
    }


def _model(cell: Any) -> str:
    return str(cell.recipe["model"]["name"])
