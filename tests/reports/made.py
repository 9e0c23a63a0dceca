"""Run folders for the report's tests: a model compiled by hand, looked at by all lenses, quickly.

Checkpoints, a training log and a verdict are written beside it, as a trained run would have them.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from statetrace.config.compile_spec import CompileSpec
from statetrace.lenses.registry import LENSES, make_spec
from statetrace.lenses.result import LensResult
from statetrace.models.compiled import compile_model
from statetrace.tasks.word_problem import word_problem

QUICK: dict[str, dict[str, str]] = {
    "generalization": {"sequences": "60", "bootstrap": "20"},
    "probing": {
        "train": "200",
        "test": "100",
        "subsets": "2",
        "lengths": "2,4,6",
        "controls": "shuffled",
    },
    "patching": {"pairs": "30"},
    "depth": {"pairs": "30"},
    "attention": {"examples": "10", "ablation_examples": "20", "ablation_sizes": "1"},
    "geometry": {"sequences": "400", "permutations": "10", "points": "40"},
    "subspace": {"sequences": "200", "pairs": "20", "train": "20", "steps": "2", "draws": "1"},
}
VERDICT: dict[str, Any] = {
    "mechanism": "parity-associative",
    "confidence": 0.97,
    "probabilities": {
        "sequential": 0.0,
        "parallel": 0.01,
        "associative": 0.02,
        "parity-associative": 0.97,
    },
    "links": [
        {
            "link": "parity",
            "lengths": [2, 4, 6],
            "layers_needed": [1.0, 1.0, 1.1],
            "layers": [1, 1],
            "growth": 0.05,
            "growth_error": 0.08,
            "composed": 0.02,
            "own": 0.99,
            "learned": "before",
        },
        {
            "link": "state",
            "lengths": [2, 4, 6],
            "layers_needed": [2.0, 3.0, 4.0],
            "layers": [2, 4],
            "growth": 1.01,
            "growth_error": 0.1,
            "composed": 0.97,
            "own": None,
        },
    ],
    "evidence": {
        "patching": {
            "distances": {"associative": 0.4, "parity-associative": 0.1},
            "says": "nearest to parity-associative (0.10 away)",
        }
    },
    "says": "it runs the parity-associative algorithm, at length 6",
}
STEPS = np.arange(0, 1000, 100)


def dynamics() -> LensResult:
    """What the lens says of a log in which parity came first."""
    rise = np.clip(np.linspace(0, 2, len(STEPS)), 0, 1)
    parity = np.repeat((0.5 + rise / 2)[:, None], 6, 1)
    state = np.repeat((0.17 + 0.83 * rise**3)[:, None], 6, 1)
    return LensResult(
        "dynamics",
        {"run": ""},
        {
            "measure": ["phase"],
            "what": ["start"],
            "length": [None],
            "threshold": [None],
            "step": [0],
            "value": [1.0],
        },
        {"steps": STEPS, "loss": 2 - rise, "accuracy_state": state, "accuracy_parity": parity},
        {"evaluations": len(STEPS), "last_step": 900, "lead": {}, "phases": [0, 400]},
    )


def make(folder: Path, algorithm: str = "parity-associative", steps: tuple[int, ...] = ()) -> Path:
    """A run folder; `steps` are checkpoints beside the newest, step 900, with noisy weights."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"group": "S3", "length": 6, "notation": "moves", "tokens": None}
    about |= {"start_marker": True, "start_token": None, "folder": "."}
    info = {"format": 1, "foreign": about, "compiled": {"algorithm": algorithm}}
    (folder / "run.json").write_text(json.dumps(info))
    (folder / "verdict.json").write_text(json.dumps(VERDICT))
    for step in (*steps, 900):
        noise = 0.0 if step == 900 else 0.3
        model = compile_model(CompileSpec("S3", algorithm, 6, noise=noise))
        where = folder / "lenses" / ("" if step == 900 else f"step-{step}")
        for name, settings in QUICK.items():
            look = LENSES[name].look
            result = look(model, word_problem("S3", length=6), make_spec(name, settings))
            dataclasses.replace(result, subject={"step": step}).save(where)
        dynamics().save(where)
    return folder
