"""Unique action sequences and the states they lead to, as plain arrays (numpy only).

Cost: one million length-100 sequences of S5 with their states take about two seconds and 200 MB.
Needs no torch.

Caveat: a sequence is drawn without replacement from *all* sequences of its length; two different
sequences may share a prefix, so short prefixes of a held-out sequence do occur in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.files import read_json, replacing, write_json
from statetrace.groups import Group, store_group, stored_group

CHUNK = 8192
"""Rows scanned together: small enough for the working set to stay in cache."""

DENSE = 4
"""With at least this many candidates per sequence, redrawing is cheaper than enumerating."""


@dataclass(frozen=True)
class Sequences:
    """Actions and the state after each.

    Attributes:
        actions: element indices, [n, length], the smallest unsigned dtype that holds them.
        states: states[i, t] is the product of actions[i, : t + 1]; same shape and dtype.
    """

    actions: np.ndarray
    states: np.ndarray

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def length(self) -> int:
        return int(self.actions.shape[1])

    def __getitem__(self, rows: slice) -> Sequences:
        return Sequences(self.actions[rows], self.states[rows])

    def cut(self, length: int) -> Sequences:
        """The first `length` actions of each, without rows that become equal to an earlier one."""
        if length > self.length:
            raise StatetraceError(
                f"length {length} is too long; these sequences have {self.length} actions"
            )
        if length == self.length:
            return self
        rows = np.ascontiguousarray(self.actions[:, :length])
        first = _first_of_equal(rows)
        return Sequences(rows[first], np.ascontiguousarray(self.states[first, :length]))

    def save(self, folder: Path, group: Group) -> None:
        """Write `actions.npy`, `states.npy` and `sequences.json` (which group, which notation)."""
        for name, array in (("actions", self.actions), ("states", self.states)):
            with replacing(folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
                np.save(file, array, allow_pickle=False)
        about = {
            "group": group.name,
            "notation": group.notation,
            "sequences": len(self),
            "length": self.length,
        }
        store_group(folder, group)
        write_json(folder / "sequences.json", about)

    @staticmethod
    def load(folder: Path, group: Group) -> Sequences:
        """Read what `save` wrote; damaged data and other groups or notations are refused."""
        file = folder / "sequences.json"
        try:
            about = read_json(file)
            stored = (about["group"], about["notation"])
        except FileNotFoundError:
            raise _damaged(file, "it is missing") from None
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(file, error) from None
        same = stored == (group.name, group.notation)
        if not same or stored_group(folder, group) != group:
            raise StatetraceError(
                f"{folder} holds sequences of {stored[0]} in notation '{stored[1]}', not of "
                f"{group.name} in '{group.notation}'; set group and notation to what the folder has"
            )
        actions, states = (_elements(folder / f"{name}.npy", group) for name in FILES)
        shape = about.get("sequences", len(actions)), about.get("length", actions.shape[1])
        for name, array in zip(FILES, (actions, states), strict=True):
            if array.shape != shape:
                planned, sides = " x ".join(map(str, shape)), (f"{n:,}" for n in array.shape)
                sizes = f"it has {' x '.join(sides)} elements, but {file.name} says {planned}"
                raise _damaged(folder / f"{name}.npy", sizes)
        for start in range(0, len(actions), CHUNK):
            rows = slice(start, start + CHUNK)
            wrong = (scan(group, actions[rows]) != states[rows]).any(axis=1)
            if wrong.any():
                row = start + int(wrong.argmax())
                why = f"row {row} is not the products of the actions in actions.npy"
                raise _damaged(folder / "states.npy", why)
        return Sequences(actions, states)


def _first_of_equal(rows: np.ndarray) -> np.ndarray:
    """The rows that are not equal to an earlier one, in order. Where a row fits into a number, rows
    are compared as numbers, which is much faster."""
    base = int(rows.max(initial=0)) + 1
    if base ** rows.shape[1] <= 2**63:
        powers = base ** np.arange(rows.shape[1], dtype=np.int64)
        _, first = np.unique(rows.astype(np.int64) @ powers, return_index=True)
    else:
        _, first = np.unique(rows, axis=0, return_index=True)
    return np.sort(first)


FILES = ("actions", "states")


def _elements(file: Path, group: Group) -> np.ndarray:
    """Element indices of a file, [n, length], memory-mapped."""
    try:
        array: np.ndarray = np.lib.format.open_memmap(file, mode="r")
    except OSError:
        raise
    except Exception as error:  # numpy parses the header as Python, which raises many types
        raise _damaged(file, error) from None
    if array.ndim != 2 or not array.size or array.dtype.kind != "u":
        raise _damaged(file, f"{array.dtype} of shape {array.shape}")
    if array.max() >= group.order:
        raise _damaged(file, f"{array.max()} is not an element of {group.name}")
    return array


def _damaged(file: Path, why: object) -> StatetraceError:
    return StatetraceError(
        f"{file} is damaged ({why}); write the folder again with `statetrace data`"
    )


def element_dtype(order: int) -> type[np.unsignedinteger]:
    return np.uint8 if order <= 256 else np.uint16


def scan(group: Group, actions: np.ndarray) -> np.ndarray:
    """States after each action, [n, length]: a look-up in the Cayley table per step, all rows of a
    chunk at once."""
    table = np.ascontiguousarray(group.table).ravel()
    states = np.empty_like(actions)
    for start in range(0, len(actions), CHUNK):
        block = np.ascontiguousarray(actions[start : start + CHUNK].T).astype(np.int32)
        out = np.empty(block.shape, dtype=actions.dtype)
        state = np.full(block.shape[1], group.identity, dtype=np.int32)
        for t, action in enumerate(block):
            state = table[state * group.order + action]
            out[t] = state
            state = state.astype(np.int32)
        states[start : start + CHUNK] = out.T
    return states


def unique_sequences(
    group: Group, n: int, length: int, seed: int, actions: tuple[int, ...] | None = None
) -> Sequences:
    """`n` different sequences of `length` actions, drawn without replacement, deterministic in
    `seed`. `actions` restricts the elements that occur (default: all of them)."""
    chosen = unique_actions(group, n, length, seed, actions)
    return Sequences(chosen, scan(group, chosen))


def unique_actions(
    group: Group, n: int, length: int, seed: int, actions: tuple[int, ...] | None = None
) -> np.ndarray:
    """The actions of `unique_sequences`, [n, length]."""
    if length < 1:
        raise StatetraceError(f"length {length} is too short; use 1 or more")
    if n < 1:
        raise StatetraceError(f"{n} sequences are too few; use at least 1")
    alphabet = np.asarray(range(group.order) if actions is None else actions)
    space = len(alphabet) ** length
    if n > space:
        raise StatetraceError(
            f"there are only {space:,} different sequences of length {length} over "
            f"{len(alphabet)} actions of {group.name}, fewer than {n:,}; use at most that many"
        )
    rng = np.random.default_rng([seed, length])
    dtype = element_dtype(group.order)
    if space <= DENSE * n:
        digits = _listed(rng, space, n, length, len(alphabet))
    else:
        digits = _drawn(rng, n, length, len(alphabet), dtype)
    chosen = digits if actions is None else alphabet.astype(dtype)[digits]
    return chosen.astype(dtype, copy=False)


def _listed(rng: np.random.Generator, space: int, n: int, length: int, base: int) -> np.ndarray:
    """Number all sequences and choose n of the numbers, for n a large share of them."""
    numbers = rng.choice(space, size=n, replace=False)
    powers = base ** np.arange(length - 1, -1, -1, dtype=np.int64)
    return numbers[:, None] // powers % base


def _drawn(
    rng: np.random.Generator, n: int, length: int, base: int, dtype: type[np.unsignedinteger]
) -> np.ndarray:
    """Draw rows, and redraw repeated ones.

    Rows are compared by a random linear 64-bit hash. Equal rows always have equal hashes, so the
    result is certainly unique; a collision only costs one more draw.
    """
    digits = rng.integers(0, base, size=(n, length), dtype=dtype)
    weights = rng.integers(1, 2**64 - 1, size=length, dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(n, dtype=np.uint64)
    stale = np.arange(n)
    while len(stale):
        for start in range(0, len(stale), CHUNK):
            rows = stale[start : start + CHUNK]
            hashes[rows] = digits[rows].astype(np.uint64) @ weights
        _, first = np.unique(hashes, return_index=True)
        repeated = np.ones(n, dtype=bool)
        repeated[first] = False
        stale = np.flatnonzero(repeated)
        digits[stale] = rng.integers(0, base, size=(len(stale), length), dtype=dtype)
    return digits
