"""Signatures: the patching and probing results that each algorithm predicts (Figure 1 B and C).

Everything here is computed from the programs' tables: patching overwrites cells of a corrupted
table with those of a clean one and runs the program on; probes measure what a cell's registers
determine.

How a patched answer is scored. Suppose the unembedding adds the registers up, each giving some
weight w to the states that agree with it: log p(y) = w * (registers that agree with y) + constant.
Then for LD = log p(ŷ) - log p(ŷ'), ŷ and ŷ' the clean and the corrupted answer, registers in which
the two agree cancel, each of the D others adds w where it holds the clean value, -w where it holds
the corrupted one and 0 where it holds a third one, and unpatched LD is w D and -w D. So the paper's

    NLD = (LD - LD(x')) / (LD(x) - LD(x')) = mean over those D registers of (1, 0 or 1/2).

With one register that is 1 for the clean answer, 0 for the corrupted one, and 1/2 for any other
(both are then equally unlikely). With several, an answer that is correct in part scores in part. So
does a model whose states lie as the paper found them: a prism, parity along one axis and the rest
across, on which every linear read-out is a sum of a parity part and a rest part.

Cost: all four algorithms for S3 at length 32 take 0.2 s of one core; S5 at length 100 takes 0.1 s
for the associative and 0.5 s for the parity-associative one. Equivalent patches are run once, so an
answer that few cells carry is cheap.
Caveat: probe curves are exact for uniformly random actions, and for a reader that knows the length.
Patches are substitutions; a table does not predict the effect of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace import plugins
from statetrace.config.checks import known, whole
from statetrace.errors import StatetraceError
from statetrace.groups import Group, GroupSpec, Quotient
from statetrace.groups import group as resolve_group
from statetrace.mechanisms.algorithms import (
    FURTHER,
    Program,
    algorithm,
    algorithm_names,
    is_builtin,
)
from statetrace.mechanisms.algorithms.program import check_layers
from statetrace.mechanisms.dependencies import dependencies
from statetrace.tasks.sequences import scan, unique_sequences

Grid = NDArray[np.float64]  # [rows, T]
Mask = NDArray[np.bool_]

CORRUPTION = 1
"""As in lenses/parts/pairs.py, so that equal seeds give a lens and a prediction equal pairs."""

RESTORED = 0.99
"""NLD from which a patch counts as having restored the clean answer; programs give 1 or less."""

MAX_CELLS = 100_000_000
"""Rows x sequences x tokens of a table; the sequential algorithm passes it at about length 600."""

_AT_ONCE = 4_000_000  # registers simulated together: bounds the memory, not the result
_SAMPLE = 256  # sequences that show whether a register is parity and nothing else


@dataclass(frozen=True)
class Signature:
    """One algorithm's predictions for one group, length and number of layers.

    Attributes:
        algorithm, group, length: what is predicted.
        rows: layers + 1; row 0 is the embedding, as for the site "resid" of a model.
        patching: (where, split) -> mean NLD [rows, T]. `where` is "prefix", "suffix" or "window1",
            columns as in interventions/spec.py, NaN beyond the last one; `split` is "all" and, for
            groups with parity, "same" and "opposite" (parities of the two final states).
        restored: split -> share of pairs whose clean answer comes back after patching a prefix,
            [rows, T].
        state_probe: accuracy of the best reader of the last token of sequences of length
            column + 1, [rows, T].
        parity_probe: the same for parity, "linear" where a state's parity is linearly readable from
            its representation, "hidden" where only a register that is parity itself shows it; None
            for groups without parity.
        pairs: split -> number of pairs. Where an algorithm has too few layers to bring the first
            action to the last token, no pair has two answers, and patching is NaN.
    """

    algorithm: str
    group: str
    length: int
    rows: int
    patching: dict[tuple[str, str], Grid]
    restored: dict[str, Grid]
    state_probe: Grid
    parity_probe: dict[str, Grid] | None
    pairs: dict[str, int]

    @property
    def layers(self) -> str:
        """Such as "3 layers"."""
        return f"{self.rows - 1} layer{'' if self.rows == 2 else 's'}"

    def __repr__(self) -> str:
        return f"Signature({self.algorithm}: {self.group}, length {self.length}, {self.layers})"

    def restores(self, split: str = "all") -> list[int | None]:
        """Row by row, how many first actions must be patched to restore the answer."""
        grid = self.patching["prefix", split]
        enough = grid >= RESTORED
        return [int(row.argmax()) + 1 if row.any() else None for row in enough]

    def table(self) -> dict[str, list[Any]]:
        """The tidy table, column name -> values, one number per row.

        `measure` is "nld" (with `where` and `split`) or "accuracy" (then `target` is "state",
        "parity linear" or "parity hidden"). `position` is the column: for probes the last token of
        sequences of `position` + 1 actions.
        """
        parts: list[tuple[Any, ...]]
        parts = [("nld", *key, None, grid) for key, grid in self.patching.items()]
        parts += [("accuracy", None, None, target, grid) for target, grid in self.probes().items()]
        about = {"algorithm": self.algorithm, "group": self.group, "length": self.length}
        names = (*about, "measure", "where", "split", "target", "layer", "position", "value")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for *labels, grid in parts:
            layers, positions = np.nonzero(~np.isnan(grid))
            cells = (layers.tolist(), positions.tolist(), grid[layers, positions].tolist())
            same = ([label] * len(layers) for label in (*about.values(), *labels))
            for values, more in zip(columns.values(), (*same, *cells), strict=True):
                values.extend(more)
        return columns

    def probes(self) -> dict[str, Grid]:
        """ "state", "parity linear" and "parity hidden" -> accuracy [rows, T]."""
        parity = self.parity_probe or {}
        return {"state": self.state_probe} | {f"parity {k}": grid for k, grid in parity.items()}


def signature(
    algorithm: str | Program,
    group: GroupSpec,
    length: int,
    layers: int | None = None,
    pairs: int = 200,
    seed: int = 0,
    by: Quotient | None = None,
) -> Signature:
    """The prediction for `layers` layers (default: what the algorithm needs), from random pairs of
    sequences that differ in the first action.

    Args:
        algorithm: its name, or a program for the group.
        by: the quotient that takes the place of parity in splits and probes.
    """
    states = resolve_group(group)
    classes = states.parity if by is None else by.map
    length, pairs = whole("length", length, 2), whole("pairs", pairs, 1)
    program = _program(algorithm, states).up_to(length)
    if states.order < 2:
        raise StatetraceError(f"{states.name} has one state only; use a group with at least 2")
    layers = program.depth(length) if layers is None else check_layers(layers)
    if (layers + 1) * length * max(pairs, _SAMPLE) > MAX_CELLS:
        raise StatetraceError(
            f"the {program.name} algorithm with {layers} layers, length {length} and {pairs} pairs "
            "needs too large a table; use shorter sequences or fewer pairs"
        )
    clean, corrupted = corrupted_pairs(states, length, pairs, seed)
    grids, restored, differ = _patch(program, clean, corrupted, layers)
    splits = split_pairs(classes, clean[differ], corrupted[differ])
    means = {
        (where, split): _mean(values[:, :, chosen])
        for where, values in grids.items()
        for split, chosen in splits.items()
    }
    return Signature(
        program.name,
        states.name,
        length,
        layers + 1,
        means,
        {split: _mean(restored[:, :, chosen]) for split, chosen in splits.items()},
        _state_probe(program, layers, length),
        None if classes is None else _parity_probe(program, layers, length, classes),
        {split: int(chosen.sum()) for split, chosen in splits.items()},
    )


def predict_all(
    group: GroupSpec,
    length: int,
    pairs: int = 200,
    seed: int = 0,
    quotient: str | None = None,
    algorithms: Sequence[str] | None = None,
    stride: int | None = None,
) -> dict[str, tuple[Program, Signature] | str]:
    """Algorithms, by default the paper's and registered ones -> program and signature, or why the
    group has none."""
    states = resolve_group(group)
    if quotient is not None:
        states.quotient(quotient)  # a misspelt one is an error, not a missing algorithm
    names = algorithm_names() if algorithms is None else algorithms
    for name in names:
        known(name, [*algorithm_names(), *FURTHER], "algorithm")
    predicted: dict[str, tuple[Program, Signature] | str] = {}
    for name in names:
        try:
            by_quotient = name in ("parity-associative", "composed-quotient")
            program = algorithm(name, states, quotient if by_quotient else None, stride)
        except StatetraceError as reason:
            predicted[name] = str(reason)
            continue
        make = signature if is_builtin(name) else plugins.guarded("algorithm", name, signature)
        try:
            predicted[program.name] = program, make(program, states, length, pairs=pairs, seed=seed)
        except StatetraceError as reason:
            if is_builtin(name):
                raise  # the length or the number of pairs
            predicted[name] = str(reason)
    return predicted


def _program(name: str | Program, states: Group) -> Program:
    if isinstance(name, str):
        return algorithm(name, states)
    if name.group != states:
        raise StatetraceError(
            f"the program {name.name!r} is for {name.group.name}, but the group is {states.name}"
        )
    return name


# Patching


def corrupted_pairs(states: Group, length: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unique clean sequences, and the same with another first action; [P, T] each."""
    n = min(n, states.order**length)
    clean = unique_sequences(states, n, length, seed).actions.astype(np.int64)
    rng = np.random.default_rng([seed, length, CORRUPTION])
    corrupted = clean.copy()
    corrupted[:, 0] = (clean[:, 0] + rng.integers(1, states.order, size=len(clean))) % states.order
    return clean, corrupted


def split_pairs(
    classes: NDArray[Any] | None, clean: np.ndarray, corrupted: np.ndarray
) -> dict[str, Mask]:
    splits = {"all": np.ones(len(clean), dtype=bool)}
    if classes is not None:  # the other actions are equal, so the first decides
        splits["same"] = classes[clean[:, 0]] == classes[corrupted[:, 0]]
        splits["opposite"] = ~splits["same"]
    return splits


def _patch(
    program: Program, clean: np.ndarray, corrupted: np.ndarray, layers: int
) -> tuple[dict[str, np.ndarray], np.ndarray, Mask]:
    """For the D pairs with two answers: where -> NLD [rows, T, D], and under prefix patching
    whether the clean answer is restored [rows, T, D]; which pairs these are [P]."""
    tables = [program.run(actions, layers) for actions in (clean, corrupted)]
    differ = (tables[0][-1, :, -1] != tables[1][-1, :, -1]).any(-1)  # [P]
    good, bad = (h[:, differ] for h in tables)  # [rows, D, T, R]
    cells = _overwritten(clean.shape[1])
    restored = np.full((layers + 1, clean.shape[1], good.shape[1]), np.nan)
    grids = {where: np.full((layers + 1, clean.shape[1], good.shape[1]), np.nan) for where in cells}
    if differ.any():
        used = dependencies(program, clean.shape[1], layers).used
        for row in range(layers + 1):
            # patches of equal cells, or of cells that the answer does not use, change nothing, and
            # without them most columns coincide
            matter = used[row] & (good[row] != bad[row]).any((0, -1))  # [T]
            for where, masks in cells.items():
                unique, column = np.unique(masks & matter, axis=0, return_inverse=True)
                values, same = _patch_row(program, good, bad, row, unique)
                grids[where][row, : len(masks)] = values[column.ravel()]
                if where == "prefix":
                    restored[row] = same[column.ravel()]
    return grids, restored, differ


def _overwritten(length: int) -> dict[str, Mask]:
    """where -> the tokens that each column overwrites, [columns, T]; as interventions/spec.py."""
    start, token = np.arange(length)[:, None], np.arange(length)[None]
    return {
        "prefix": token <= start,
        "suffix": ((token >= start) & (token < length - 1))[:-1],
        "window1": token == start,
    }


def _patch_row(
    program: Program, clean: np.ndarray, corrupted: np.ndarray, row: int, masks: Mask
) -> tuple[np.ndarray, np.ndarray]:
    """NLD of overwriting one row's cells by clean ones, and whether that restores the clean answer,
    [columns, P] each; tables [rows, P, T, R]."""
    pairs, length, registers = clean.shape[1:]
    at_once = max(1, _AT_ONCE // (pairs * length * registers))
    scores, same = [], []
    answer = program.read(clean[-1, :, -1])  # [P]
    for start in range(0, len(masks), at_once):
        chosen = masks[start : start + at_once, None, :, None]  # [C, 1, T, 1]
        h = np.where(chosen, clean[row], corrupted[row]).reshape(-1, length, registers)
        for layer in range(row + 1, len(clean)):
            h = program.step(layer, h)
        final = h[:, -1].reshape(-1, pairs, registers)
        scores.append(_nld(final, clean[-1, :, -1], corrupted[-1, :, -1]))
        same.append(program.read(final) == answer)
    return np.concatenate(scores), np.concatenate(same)


def _nld(final: np.ndarray, clean: np.ndarray, corrupted: np.ndarray) -> np.ndarray:
    """As derived at the top of this module: final [C, P, R], clean and corrupted [P, R]."""
    differ = clean != corrupted
    score = (1.0 + (final == clean) - (final == corrupted)) / 2
    return (score * differ).sum(-1) / differ.sum(-1)


def _mean(values: np.ndarray) -> Grid:
    """Over pairs, [rows, T, n] -> [rows, T]; NaN where there are none."""
    return values.mean(-1) if values.shape[-1] else np.full(values.shape[:2], np.nan)


# Probing


def _reached(program: Program, layers: int, length: int) -> Mask:
    """Where a cell holds the state of the sequence that ends there, [rows, T]."""
    return np.array(
        [[program.reaches(row, n) for n in range(1, length + 1)] for row in range(layers + 1)]
    )


def _state_probe(program: Program, layers: int, length: int) -> Grid:
    left = _unknown(program, layers, length, np.arange(program.group.order))
    return np.where(_reached(program, layers, length), 1.0, 1.0 / left)


def _unknown(program: Program, layers: int, length: int, classes: np.ndarray) -> np.ndarray:
    """How many classes a cell leaves possible for a state that it does not reach, [rows, T]."""
    count = cache(lambda subset: len(np.unique(classes[list(subset)])))
    lengths = range(1, length + 1)
    return np.array(
        [[count(program.unknown_at(row, n)) for n in lengths] for row in range(layers + 1)]
    )


def _parity_probe(
    program: Program, layers: int, length: int, classes: np.ndarray
) -> dict[str, Grid]:
    """Of parity, or of the quotient with these classes, which are equally large: what is not known
    is guessed among the classes that remain possible."""
    possible = _unknown(program, layers, length, classes)
    linear = np.where(_reached(program, layers, length), 1.0, 1.0 / possible)
    shown = _parity_registers(program, layers, length, classes)
    chance = 1.0 / len(np.unique(classes))
    return {"linear": linear, "hidden": np.where((linear == 1.0) & shown, 1.0, chance)}


def _parity_registers(program: Program, layers: int, length: int, classes: np.ndarray) -> Mask:
    """Where a register has one value for each class of states, all different: [rows, T]."""
    rng = np.random.default_rng([length, program.group.order])
    actions = rng.integers(0, program.group.order, size=(_SAMPLE, length))
    reached = classes[scan(program.group, actions)][..., None]  # [B, T, 1]
    rows = []
    for h in program.run(actions, layers):  # [B, T, R]
        lows, highs = (
            np.stack(
                [extreme(np.where(reached == c, h, beyond), axis=0) for c in np.unique(classes)]
            )
            for extreme, beyond in ((np.min, program.group.order), (np.max, -1))
        )  # [classes, T, R]
        different = (np.diff(np.sort(lows, axis=0), axis=0) > 0).all(0)
        rows.append(((lows == highs).all(0) & different).any(-1))
    return np.stack(rows)
