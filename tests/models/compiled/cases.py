"""The compiled models that are tried, and where in them a program's rows are to be rows."""

from itertools import product
from typing import Any

import numpy as np

from statetrace.groups import group
from statetrace.lenses.compiled import check_compiled, task_of
from statetrace.lenses.parts.answers import answers
from statetrace.mechanisms.algorithms import Program, algorithm
from statetrace.models.compiled import CompileSpec, compile_model
from statetrace.tasks.sequences import Sequences, scan

ALGORITHMS = ("sequential", "parallel", "associative", "parity-associative")

PAIRS = [
    *(("S3", name) for name in ALGORITHMS),
    *((of, name) for of in ("S4", "S5", "A5") for name in ("sequential", "associative")),
    *((of, "parity-associative") for of in ("S4", "S5")),
    *((of, "parallel") for of in ("A4", "Z6", "D4xZ2", "S4")),
]

MOST = 50_000
"""Up to so many sequences, all are tried."""


def counts(name: str) -> bool:
    """Whether the algorithm counts something, by one counter or the other."""
    return name in ("parallel", "parity-associative")


def variants(name: str, **choices: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Every combination of the choices that the algorithm has."""
    choices |= {"counter": ("selective", "average")} if counts(name) else {}
    choices |= {} if counts(name) else {"parity": ("linear", "hidden")}
    every = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    return [
        chosen
        for chosen in every
        if chosen.get("start_marker", True) or chosen.get("counter") != "selective"
    ]


def accuracy(spec: CompileSpec, random: int = 200) -> float:
    """Of a freshly compiled model: on all sequences where there are few, else on random ones."""
    return check(compile_model(spec), spec, random)


def check(model: Any, spec: CompileSpec, random: int = 200) -> float:
    space = task_of(spec).space
    return check_compiled(model, spec, space if space <= MOST else random)[0]


def sequences(spec: CompileSpec, n: int, seed: int = 0) -> Sequences:
    """Any `n` sequences, equal ones too."""
    of = group(spec.group, spec.notation)
    actions = np.random.default_rng(seed).integers(0, of.order, size=(n, spec.length))
    return Sequences(actions, scan(of, actions))


def predictions(model: Any, spec: CompileSpec, tried: Sequences) -> np.ndarray:
    return answers(model, task_of(spec), tried)


def program(spec: CompileSpec) -> Program:
    of = group(spec.group, spec.notation)
    return algorithm(spec.algorithm, of, spec.quotient, spec.stride).up_to(spec.length)


def program_rows(spec: CompileSpec) -> list[int]:
    """For each row of the model's residual stream, embedding first, the program's row it holds.

    A model needs a block more where a program counts and divides in one step: parity-associative,
    and parallel (for S3, with the average counter); and where it composes and divides in one.
    """
    rows = list(range(program(spec).depth(spec.length) + 1))
    if spec.algorithm == "composed-quotient":
        rows = sorted([*rows, len(rows) // 2])
    if counts(spec.algorithm):
        assert spec.algorithm == "parity-associative" or spec.counts_by == "average"
        rows = [0, 1, *rows[1:]]
    first, *blocks = rows
    rows = [first] * (1 + spec.before)
    for i, row in enumerate(blocks):
        rows += [rows[-1]] * (spec.between if i else 0) + [row]
    return rows + [rows[-1]] * spec.after
