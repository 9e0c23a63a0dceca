"""Patches: the patched answers of the caller's own pairs, with a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statetrace.inspection import PatchTable

if TYPE_CHECKING:
    from statetrace.reports.figures.chart import Chart


class Patches(PatchTable):
    """A PatchTable with a figure."""

    def plot(self, metric: str = "nld") -> Chart:
        """The heat map: the mean over pairs of "nld", "clean_probability" or
        "corrupted_probability", by layer (or head) and position."""
        from statetrace.reports.figures.patching import own_pairs

        return own_pairs(self, metric)
