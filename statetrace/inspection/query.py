"""What is asked of a model: a sequence, and what to change while it reads it. Refused here if it
makes no sense, so that whoever computes or serves need not look again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statetrace.errors import StatetraceError
from statetrace.inspection.session import Session
from statetrace.interventions import Site

INSTEAD = ("mean", "zero")
"""What takes the place of an ablated head's output: its mean over sequences, or nothing."""

MOST_PATCHES = 512
"""A person clicks fewer; a program should use statetrace.interventions."""


@dataclass(frozen=True, order=True)
class Patch:
    """Put the source's residual stream in at a layer, after the actions `first` to `last`.

    Attributes:
        layer: 0 is the embedding and l the output of block l.
        first, last: actions counted from 0, both included. A patch from the first action on is a
            prefix, as the paper patches them.
    """

    layer: int
    first: int
    last: int


@dataclass(frozen=True)
class Query:
    """A request that makes sense for its model.

    Attributes:
        actions, source: elements of the group; the source is empty where nothing is patched in.
        heads: the ablated ones.
        instead: one of INSTEAD.
    """

    actions: tuple[int, ...]
    source: tuple[int, ...]
    patches: tuple[Patch, ...]
    heads: tuple[Site, ...]
    instead: str

    @property
    def changes(self) -> bool:
        """Whether anything is done to the model."""
        return bool(self.patches or self.heads)


def question(
    model: Session,
    actions: str | Sequence[int | str],
    source: str | Sequence[int | str] | None,
    patches: Iterable[Patch],
    without: Iterable[tuple[int, int]],
    instead: str,
) -> Query:
    """Check a request against the model it is for."""
    given = elements(model, actions, "the sequence")
    other = () if source is None else elements(model, source, "the source")
    chosen = tuple(dict.fromkeys(patches))
    if len(chosen) > MOST_PATCHES:
        raise StatetraceError(f"{len(chosen)} patches are too many: give up to {MOST_PATCHES}")
    for patch in chosen:
        _check_patch(model, patch, len(given), len(other))
    heads = tuple(dict.fromkeys(_head(model, *place) for place in without))
    if instead not in INSTEAD:
        raise StatetraceError(f"instead = {instead!r} is unknown: use {' or '.join(INSTEAD)}")
    return Query(given, other, chosen, heads, instead)


def elements(model: Session, actions: str | Sequence[int | str], name: str) -> tuple[int, ...]:
    """Labels with commas, or labels or indices one by one -> indices."""
    group = model.task.group
    words = actions.split(",") if isinstance(actions, str) else list(actions)
    if isinstance(actions, str) and not actions:
        words = []
    if not 1 <= len(words) <= model.longest:
        raise StatetraceError(
            f"{name} has {len(words)} actions; this model takes from 1 to {model.longest}"
        )
    found = []
    for word in words:
        label = word.strip() if isinstance(word, str) else word
        found.append(group.index(label) if isinstance(label, str) else group.product([label]))
    return tuple(found)


def check_head(model: Session, layer: int, head: int) -> None:
    """Refuse a head that is not there."""
    heads = model.anatomy.heads or 0
    if not 1 <= layer <= model.anatomy.layers or not 0 <= head < heads:
        raise StatetraceError(
            f"there is no head {layer}.{head}: layers are 1 to {model.anatomy.layers}, "
            f"heads 0 to {heads - 1}"
        )


def _head(model: Session, layer: int, head: int) -> Site:
    """One that can be ablated."""
    if model.no_heads is not None:
        raise StatetraceError(f"there is no head {layer}.{head}: {model.no_heads}")
    check_head(model, layer, head)
    return Site("head", layer, head)


def _check_patch(model: Session, patch: Patch, length: int, source: int) -> None:
    if not 0 <= patch.layer <= model.anatomy.layers:
        raise StatetraceError(
            f"there is no layer {patch.layer} to patch: layers are 0 (the embedding) to "
            f"{model.anatomy.layers}"
        )
    if not 0 <= patch.first <= patch.last:
        raise StatetraceError(
            f"a patch from action {patch.first} to {patch.last} is empty: actions are counted from "
            "0, and the last one may not come before the first"
        )
    if patch.last >= length:
        raise StatetraceError(
            f"action {patch.last} cannot be patched: the sequence ends with action {length - 1}"
        )
    if not source:
        raise StatetraceError("a patch needs a source, and none was given")
    if patch.last >= source:
        raise StatetraceError(
            f"action {patch.last} cannot be patched: the source ends with action {source - 1}"
        )
