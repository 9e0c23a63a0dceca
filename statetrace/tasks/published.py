"""Read data sets of the paper's published generator.

One folder, one JSON file per sequence: "story" is a string of actions separated by spaces,
"state_seq" the states, the first of which is the initial one. That code reads `312` as "position 1
receives object 3", the notation called `receives` here.

Cost: a file per sequence, so about a minute per million on a warm disk.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from statetrace.errors import StatetraceError
from statetrace.files import read_json
from statetrace.groups import Group
from statetrace.tasks.sequences import Sequences, element_dtype, scan


def is_published(folder: Path) -> bool:
    return folder.is_dir() and next(folder.glob("*.json"), None) is not None


def read_published(folder: Path, group: Group) -> Sequences:
    """All sequences of the folder in the order of their file names, without repetitions.

    The states in the files must be the products of their actions in the group's notation, starting
    from the identity; a data set in the other notation is refused.
    """
    files = sorted(folder.glob("*.json"), key=_natural)
    index = {label: i for i, label in enumerate(group.labels)}
    pairs = [_read(file, index, group) for file in files]
    length = min(len(actions) for actions, _ in pairs)
    if length == 0:
        empty = next(file for file, (actions, _) in zip(files, pairs, strict=True) if not actions)
        raise StatetraceError(f"{empty}: the story is empty; it should hold at least one action")
    dtype = element_dtype(group.order)
    actions = np.array([actions[:length] for actions, _ in pairs], dtype=dtype)
    stated = np.array([states[: length + 1] for _, states in pairs], dtype=dtype)
    states = scan(group, actions)
    wrong = (stated[:, 0] != group.identity) | (stated[:, 1:] != states).any(axis=1)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise StatetraceError(_mismatch(files[first], group, stated[first], int(wrong.sum())))
    _, unique = np.unique(actions, axis=0, return_index=True)
    unique.sort()
    return Sequences(actions[unique], states[unique])


def _mismatch(file: Path, group: Group, stated: np.ndarray, count: int) -> str:
    if stated[0] != group.identity:
        return (
            f"{file}: the initial state is '{group.labels[stated[0]]}'; only sequences that start "
            f"from '{group.labels[group.identity]}' can be read"
        )
    other = "receives" if group.notation == "moves" else "moves"
    return (
        f"{file}: its states are not the products of its actions in notation '{group.notation}' "
        f"(the same in {count:,} file(s)); the published generator writes 'receives', so try "
        f"notation '{other}'"
    )


def _read(file: Path, index: dict[str, int], group: Group) -> tuple[list[int], list[int]]:
    try:
        record = read_json(file)
        story, states = record["story"], record["state_seq"]
    except (ValueError, KeyError, TypeError) as error:
        raise StatetraceError(
            f'{file} cannot be read ({error}); it should be JSON with "story" and "state_seq"'
        ) from None
    if isinstance(states, str):
        states = states.split()
    actions = [_element(word, file, index, group) for word in story.split()]
    reached = [_element(state, file, index, group) for state in states]
    if len(reached) < len(actions) + 1:
        raise StatetraceError(
            f"{file}: {len(actions)} actions but {len(reached)} states; state_seq should hold the "
            "initial state and one state per action"
        )
    return actions, reached


def _element(written: object, file: Path, index: dict[str, int], group: Group) -> int:
    """Accepts "132", 132, [1, 3, 2] and "1 3 2"-like spellings of one permutation."""
    label = "".join(str(x) for x in written) if isinstance(written, list) else str(written)
    label = re.sub(r"[^0-9A-Za-z:]", "", label)
    if label not in index:
        raise StatetraceError(
            f"{file}: '{written}' is not an element of {group.name}; its elements are written like "
            f"'{group.labels[0]}'"
        )
    return index[label]


def _natural(file: Path) -> list[tuple[int, str]]:
    """Sorts story_2 before story_10."""
    return [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", file.name)]
