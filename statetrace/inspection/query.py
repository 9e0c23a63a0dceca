"""A checked request: a sequence, and what to change while the model reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from statetrace.config.checks import is_whole, one_of
from statetrace.errors import StatetraceError
from statetrace.inspection.sequences import Actions, parse_sequence
from statetrace.inspection.session import Session
from statetrace.interventions.sites import Site

INSTEAD = ("mean", "zero")
"""What replaces an ablated head's output: its mean over sequences, or zeros."""

MOST_PATCHES = 512
"""Patches in one query; use `patch` for grids of them."""


@dataclass(frozen=True, order=True)
class Patch:
    """Overwrite the residual stream at a layer with the source's, for actions `first` to `last`.

    Attributes:
        layer: 0 is the embedding and l the output of block l.
        first, last: actions counted from 0, both included. A patch from the first action on is a
            prefix patch as in the paper.
    """

    layer: int
    first: int
    last: int


HEAD = {"layer": 4, "head": 1}
PATCH = {"layer": 2, "first action": 0, "last action": 3}


@dataclass(frozen=True)
class Query:
    """A request that is valid for its model.

    Attributes:
        actions, source: elements of the group; the source is empty where none was given.
        heads: the ablated ones.
        instead: one of INSTEAD.
    """

    actions: tuple[int, ...]
    source: tuple[int, ...]
    patches: tuple[Patch, ...]
    heads: tuple[Site, ...]
    instead: str

    @property
    def changes(self) -> str:
        """The patches and ablations in a few words; empty for none."""
        parts = []
        if self.patches:
            parts.append(f"{len(self.patches)} patch{'es' if len(self.patches) > 1 else ''}")
        if self.heads:
            parts.append(f"{self.instead} ablation of {names_of(self.heads)}")
        return ", ".join(parts)


def make_query(
    session: Session,
    actions: Actions,
    source: Actions | None = None,
    patches: Iterable[Patch | tuple[int, int, int]] = (),
    without: Iterable[tuple[int, int]] = (),
    instead: str = "mean",
) -> Query:
    """Check a request against the model it is for."""
    group, longest = session.task.group, session.longest
    sequence = parse_sequence(group, actions, "the sequence", longest)
    donor = () if source is None else parse_sequence(group, source, "the source", longest)
    chosen = tuple(Patch(*row) for row in parse_places("patches", patches, PATCH))
    if len(chosen) > MOST_PATCHES:
        raise StatetraceError(f"{len(chosen)} patches are too many; the limit is {MOST_PATCHES}")
    for patch in chosen:
        _check_patch(session, patch, len(sequence), len(donor))
    heads = tuple(_head(session, *row) for row in parse_places("without", without, HEAD))
    one_of("instead", instead, INSTEAD)
    return Query(sequence, donor, chosen, heads, instead)


def parse_places(name: str, places: Any, example: dict[str, int]) -> list[tuple[int, ...]]:
    """Different tuples of whole numbers, one for each part of the example."""
    try:
        rows = [astuple(row) if isinstance(row, Patch) else tuple(row) for row in places]
    except TypeError:
        rows = [()]
    if any(len(row) != len(example) or not all(map(is_whole, row)) for row in rows):
        parts, such = ", ".join(example), tuple(example.values())
        raise StatetraceError(
            f"{name} = {places!r:.80} is not a list of ({parts}), such as [{such}]"
        )
    return list(dict.fromkeys(tuple(map(int, row)) for row in rows))


def check_head(session: Session, layer: int, head: int) -> None:
    """Refuse a head that the model does not have."""
    heads = session.anatomy.heads or 0
    if not 1 <= layer <= session.anatomy.layers or not 0 <= head < heads:
        raise StatetraceError(
            f"there is no head {layer}.{head}; layers are 1 to {session.anatomy.layers}, "
            f"heads 0 to {heads - 1}"
        )


def names_of(heads: Iterable[Site]) -> str:
    """Such as "heads 4.1, 4.2", layer first."""
    names = [f"{site.layer}.{site.head}" for site in heads]
    return f"head{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _head(session: Session, layer: int, head: int) -> Site:
    if session.no_heads is not None:
        raise StatetraceError(f"there is no head {layer}.{head}: {session.no_heads}")
    check_head(session, layer, head)
    return Site("head", layer, head)


def _check_patch(session: Session, patch: Patch, length: int, source: int) -> None:
    if not 0 <= patch.layer <= session.anatomy.layers:
        raise StatetraceError(
            f"there is no layer {patch.layer} to patch; layers are 0 (the embedding) to "
            f"{session.anatomy.layers}"
        )
    if not 0 <= patch.first <= patch.last:
        raise StatetraceError(
            f"a patch from action {patch.first} to {patch.last} is empty; actions are counted from "
            "0, and the last one must not come before the first"
        )
    if not source:
        raise StatetraceError(f"{patch} needs a source sequence; give one with source=")
    for name, end in (("sequence", length), ("source", source)):
        if patch.last >= end:
            raise StatetraceError(
                f"action {patch.last} cannot be patched: the {name} ends with action {end - 1}"
            )
