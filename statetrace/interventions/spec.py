"""The definition of one heat map of patches: which positions are overwritten where, and with what.

A *column* t is an action, 0 the first one. A *position* is a token of the input, where `offset`
tokens (a start marker) precede the first action and every action has `stride` tokens, one unless
actions are sentences. Needs no torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statetrace.config.checks import at_least, one_of
from statetrace.config.settings import setting
from statetrace.errors import StatetraceError
from statetrace.interventions.sites import KINDS, Site, check_sites, sites_of

if TYPE_CHECKING:
    from statetrace.models import Anatomy

WHERE = ("prefix", "suffix", "window", "context")
WHAT = ("substitution", "deletion")

Window = tuple[int, int]
"""Positions [start, stop) that a cell overwrites."""


@dataclass(frozen=True)
class GridSpec:
    """One heat map: a row per site, a column per window of positions to overwrite."""

    where: str = setting(
        "prefix",
        "Positions to overwrite. prefix: up to and including action t (and the start marker); "
        "suffix: from action t to the second last; window: `window` actions from t on; context: "
        "all actions but the last, in one column.",
    )
    what: str = setting(
        "substitution",
        "substitution: run the corrupted input and overwrite with activations of the clean run; "
        "deletion: run the clean input and overwrite with zeros.",
    )
    rows: str | tuple[Site, ...] = setting(
        "resid", "All sites of a kind (resid, attn_out, mlp_out, head), or a tuple of sites."
    )
    window: int = setting(1, "Actions per window.")

    def __post_init__(self) -> None:
        one_of("where", self.where, WHERE)
        one_of("what", self.what, WHAT)
        if isinstance(self.rows, str):
            one_of("rows", self.rows, KINDS)
        elif not self.rows:
            raise StatetraceError("rows is empty; give at least one site, or the name of a kind")
        at_least("window", self.window, 1)
        if self.window > 1 and self.where != "window":
            raise StatetraceError(
                f"window {self.window} requires where = 'window', not {self.where!r}"
            )

    @staticmethod
    def named(name: str) -> GridSpec:
        """The inverse of `name`: "prefix-substitution-resid", "window3-deletion-head"."""
        match = re.fullmatch(r"([a-z]+?)(\d*)-([a-z]+)(?:-([a-z_]+))?", name)
        if match is None:
            raise StatetraceError(
                f"{name!r} is not the name of a grid; write WHERE-WHAT-ROWS such as "
                "prefix-substitution-resid or window3-deletion-head"
            )
        where, window, what, rows = match.groups()
        return GridSpec(where, what, rows or "resid", int(window or 1))

    @property
    def name(self) -> str:
        """A short unique name, also the prefix of the arrays of this grid."""
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
        """The positions that each column overwrites, in sequences of `length` tokens with `stride`
        tokens per action.

        Suffixes start at every action but the last, windows wherever they are complete.
        """
        actions, rest = divmod(length - offset, stride)
        if rest:
            raise StatetraceError(
                f"{length} tokens are not {offset} tokens and whole actions of {stride} tokens"
            )
        columns = {"prefix": actions, "suffix": actions - 1, "window": actions - self.window + 1}
        columns["context"] = min(actions - 1, 1)
        if columns[self.where] < 1:
            kind = f"a window of {self.window}" if self.where == "window" else "a " + self.where
            raise StatetraceError(f"{actions} actions are too few for {kind}; use longer sequences")
        starts = [offset + stride * column for column in range(columns[self.where])]
        last = length - stride
        if self.where == "prefix":
            return tuple((0, start + stride) for start in starts)
        if self.where == "context":
            return ((0, last),)
        if self.where == "suffix":
            return tuple((start, last) for start in starts)
        return tuple((start, start + stride * self.window) for start in starts)
