"""Sequences of actions as people write them: "213,132", lists of labels or indices, arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.groups import Group
from statetrace.tasks.sequences import Sequences, scan

Actions: TypeAlias = str | Sequence[int | str] | np.ndarray
"""One sequence: labels separated by commas or spaces, or labels or element indices one by one."""

ManyActions: TypeAlias = Actions | Sequence[Actions]
"""One sequence, or several of the same length; an array is [T] or [n, T]."""


def parse_sequence(
    group: Group, actions: Actions, name: str = "the sequence", longest: int | None = None
) -> tuple[int, ...]:
    """Element indices; refuses unknown elements and sequences that are empty or too long."""
    if isinstance(actions, str):
        items: list[Any] = [actions] if actions in group.labels else actions.split(",")
        if len(items) == 1 and all(label in group.labels for label in actions.split()):
            items = actions.split()
    elif hasattr(actions, "__len__") and all(np.ndim(item) == 0 for item in actions):
        items = [item.item() if isinstance(item, np.generic) else item for item in actions]
    else:
        raise StatetraceError(
            f"{name} is {actions!r}; give labels or element indices, such as "
            f"'{','.join(group.labels[:3])}'"
        )
    if not items or (longest is not None and len(items) > longest):
        allowed = "1 or more" if longest is None else f"1 to {longest}"
        raise StatetraceError(f"{name} has {len(items)} actions; the model takes {allowed}")
    return tuple(_element(group, item) for item in items)


def parse_sequences(group: Group, sequences: ManyActions, name: str) -> Sequences:
    """One sequence or many, with their states, [n, T]."""
    if _are_indices(group, sequences):
        actions = np.asarray(sequences, dtype=np.int64)
        return Sequences(actions, scan(group, actions))
    many: list[Any] = list(sequences) if _is_many(group, sequences) else [sequences]
    rows = [parse_sequence(group, row, f"{name} {i}") for i, row in enumerate(many)]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        listed = " and ".join(map(str, lengths[:3])) or "no"
        raise StatetraceError(f"{name} has sequences of {listed} actions; give one common length")
    actions = np.array(rows, dtype=np.int64)
    return Sequences(actions, scan(group, actions))


def _are_indices(group: Group, sequences: ManyActions) -> bool:
    """Whether this is an array [n, T] of valid indices: thousands need not be parsed one by one."""
    return (
        isinstance(sequences, np.ndarray)
        and sequences.ndim == 2
        and sequences.dtype.kind in "iu"
        and sequences.size > 0
        and sequences.min() >= 0
        and sequences.max() < group.order
    )


def _is_many(group: Group, sequences: ManyActions) -> bool:
    if isinstance(sequences, str) or not hasattr(sequences, "__len__"):
        return False
    return not len(sequences) or any(
        ("," in item and item not in group.labels) if isinstance(item, str) else np.ndim(item) > 0
        for item in sequences
    )


def _element(group: Group, item: Any) -> int:
    if isinstance(item, str):
        return group.index(item if item in group.labels else item.strip())
    return group.product([item])
