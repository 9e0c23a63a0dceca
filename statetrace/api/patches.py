"""Patches: the patched answers of the caller's own pairs, with a figure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from statetrace.inspection import PatchTable

if TYPE_CHECKING:
    from statetrace.reports.figures.chart import Chart


class Patches(PatchTable):
    """A PatchTable with a figure."""

    @staticmethod
    def of(table: PatchTable) -> Patches:
        values: dict[str, Any] = {
            each.name: getattr(table, each.name) for each in dataclasses.fields(table)
        }
        return Patches(**values)

    def plot(self, metric: str = "nld") -> Chart:
        """The heat map: the mean over pairs of "nld", "clean_probability" or
        "corrupted_probability", by layer (or head) and position."""
        from statetrace.reports.figures.patching import own_pairs

        return own_pairs(self, metric)
