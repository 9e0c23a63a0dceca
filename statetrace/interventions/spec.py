"""What one heat map of patches consists of: which positions are overwritten where, and with what.

Positions are counted in two ways. A *column* t is an action, 0 the first one; a *position* is a
token of the model's input, where `offset` tokens (a start marker) come before the first action and
every action has `stride` tokens, one unless it is a sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from statetrace.errors import StatetraceError
from statetrace.interventions.sites import KINDS, Site, check_sites, sites_of
from statetrace.models import Anatomy

WHERE = ("prefix", "suffix", "window", "context")
WHAT = ("substitution", "deletion")

Window = tuple[int, int]
"""Positions [start, stop) that a cell overwrites."""


@dataclass(frozen=True)
class GridSpec:
    """One heat map: a row for each site, a column for each place to overwrite."""

    where: str = "prefix"
    """prefix: everything up to and including action t (and the start marker). suffix: from action
    t to the one before the last. window: `window` actions from t on. context: everything but the
    last action, one column."""

    what: str = "substitution"
    """substitution: run the corrupted input, overwrite with the clean run's activations. deletion:
    run the clean input, overwrite with zeros."""

    rows: str | tuple[Site, ...] = "resid"
    """All sites of a kind (resid, attn_out, mlp_out, head), or a choice of sites."""

    window: int = 1
    """Actions per window."""

    def __post_init__(self) -> None:
        _choose("where", self.where, WHERE)
        _choose("what", self.what, WHAT)
        if isinstance(self.rows, str):
            _choose("rows", self.rows, KINDS)
        elif not self.rows:
            raise StatetraceError("rows is empty: give at least one site, or the name of a kind")
        if self.window < 1:
            raise StatetraceError(f"window {self.window} is too narrow: it must be at least 1")
        if self.window > 1 and self.where != "window":
            raise StatetraceError(
                f"window {self.window} has no meaning for where = {self.where!r}: "
                "use where = 'window', or leave it at 1"
            )

    @staticmethod
    def named(name: str) -> GridSpec:
        """The inverse of `name`: "prefix-substitution-resid", "window3-deletion-head"."""
        match = re.fullmatch(r"([a-z]+?)(\d*)-([a-z]+)(?:-([a-z_]+))?", name)
        if match is None:
            raise StatetraceError(
                f"{name!r} names no grid: write WHERE-WHAT-ROWS such as prefix-substitution-resid "
                "or window3-deletion-head"
            )
        where, window, what, rows = match.groups()
        return GridSpec(where, what, rows or "resid", int(window or 1))

    @property
    def name(self) -> str:
        """Short, the same for the same settings: names this grid's arrays."""
        width = self.window if self.where == "window" else ""
        if isinstance(self.rows, str):
            rows = self.rows
        else:
            rows = "+".join(str(site).replace(" ", "_") for site in self.rows)
        return f"{self.where}{width}-{self.what}-{rows}"

    def sites(self, anatomy: Anatomy) -> tuple[Site, ...]:
        """The rows, from top to bottom."""
        if isinstance(self.rows, str):
            return sites_of(self.rows, anatomy)
        check_sites(self.rows, anatomy)
        return self.rows

    def windows(self, length: int, offset: int, stride: int = 1) -> tuple[Window, ...]:
        """The positions each column overwrites, columns 0, 1, ... of `length` tokens, `stride` to
        an action.

        Suffixes start at every action but the last; windows wherever they are complete.
        """
        actions, rest = divmod(length - offset, stride)
        if rest:
            raise StatetraceError(
                f"{length} tokens are not {offset} and whole actions of {stride} tokens each"
            )
        columns = {"prefix": actions, "suffix": actions - 1, "window": actions - self.window + 1}
        columns["context"] = min(actions - 1, 1)
        if columns[self.where] < 1:
            what = f"a window of {self.window}" if self.where == "window" else "a " + self.where
            raise StatetraceError(f"{actions} actions are too few for {what}: use longer sequences")
        starts = [offset + stride * column for column in range(columns[self.where])]
        last = length - stride
        if self.where == "prefix":
            return tuple((0, start + stride) for start in starts)
        if self.where == "context":
            return ((0, last),)
        if self.where == "suffix":
            return tuple((start, last) for start in starts)
        return tuple((start, start + stride * self.window) for start in starts)


def _choose(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise StatetraceError(f"{field} = {value!r} is unknown: use one of {', '.join(choices)}")
