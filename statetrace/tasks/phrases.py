"""Permutations in English: "Swap positions 2 and 3.", "Rotate the last item to the front."

Purpose: the paper's natural-language task (appendix E) for any group of permutations. A sentence
describes the physical movement of the objects that a label stands for, not the label itself, so it
is correct in either notation; the same label has inverse sentences in the two.
Cost: none; S7 has 5,040 elements and as many sentences per wording.
Caveat: every sentence has exactly one period, its last character, where the state is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statetrace.errors import StatetraceError
from statetrace.groups import Group, arrange
from statetrace.groups.elements import permuted_objects

STAY = (
    "leave every item in place",
    "change nothing",
    "keep all items where they are",
    "do not move any item",
)
SWAP = (
    "swap positions {} and {}",
    "exchange the items at positions {} and {}",
    "let positions {} and {} trade places",
    "switch position {} with position {}",
)
LAST_TO_FRONT = (
    "rotate the last item to the front",
    "move the last item to the front",
    "bring the item at the end to the beginning",
    "take the last item and put it first",
)
FIRST_TO_BACK = (
    "rotate the first item to the back",
    "move the first item to the back",
    "bring the item at the beginning to the end",
    "take the first item and put it last",
)
CYCLE = (
    "move the item at position {}",
    "send the item at position {}",
    "shift the item at position {}",
    "carry the item at position {}",
)
WORDINGS = len(SWAP)
"""Number of wordings of every sentence; the first is the paper's."""

Wordings = Mapping[str, Sequence[str]]
"""Label of an element -> its sentences, equally many for all."""

Movement = tuple[int, ...]
"""movement[i] is the position, from 0, that the object at position i moves to."""


def movement(label: str, notation: str) -> Movement:
    """The physical movement of the objects."""
    sources = arrange(label, range(len(label)), notation)
    return tuple(sources.index(i) for i in range(len(label)))


def sentence(label: str, notation: str, wording: int = 0) -> str:
    """The movement that a label denotes, in one of `WORDINGS` wordings."""
    text = _describe(movement(label, notation), wording)
    return f"{text[0].upper()}{text[1:]}."


def wordings(group: Group, count: int) -> dict[str, list[str]]:
    """The sentences of a group of permutations, `count` wordings for each element."""
    check_permutations(group)
    if not 1 <= count <= WORDINGS:
        raise StatetraceError(
            f"paraphrases {count} is not available; use a number from 1 to {WORDINGS}"
        )
    notation = group.notation
    return {label: [sentence(label, notation, n) for n in range(count)] for label in group.labels}


def check_permutations(group: Group) -> None:
    """Refuse a group whose elements are not permutations of objects in a row."""
    if not permuted_objects(group):
        raise StatetraceError(
            f"{group.name} cannot be written as text: its elements, such as '{group.labels[-1]}', "
            "are not permutations of objects in a row; use a group such as S3 or A5"
        )


def _describe(move: Movement, wording: int) -> str:
    n = len(move)
    cycles = _cycles(move)
    if not cycles:
        return STAY[wording]
    if n > 2 and move == tuple((i + 1) % n for i in range(n)):
        return LAST_TO_FRONT[wording]
    if n > 2 and move == tuple((i - 1) % n for i in range(n)):
        return FIRST_TO_BACK[wording]
    return ", then ".join(_describe_cycle(cycle, wording) for cycle in cycles)


def _describe_cycle(cycle: Sequence[int], wording: int) -> str:
    places = [position + 1 for position in cycle]
    if len(places) == 2:
        return SWAP[wording].format(*places)
    links = [f"{a} to {b}" for a, b in zip(places, places[1:] + places[:1], strict=True)]
    return CYCLE[wording].format(f"{', '.join(links[:-1])} and {links[-1]}")


def _cycles(move: Movement) -> list[list[int]]:
    """The cycles of two or more positions, each from its smallest, in order of those."""
    cycles, visited = [], set()
    for start in range(len(move)):
        cycle = []
        position = start
        while position not in visited:
            visited.add(position)
            cycle.append(position)
            position = move[position]
        if len(cycle) > 1:
            cycles.append(cycle)
    return cycles
