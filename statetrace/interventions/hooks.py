"""Patching with hooks and full forward passes, for any causal language model.

Purpose: families without support for cached patching. The only assumption is that the sites of the
model can be found; only the activations of the clean run are reused.
Cost: one full forward pass per cell and pair, cells batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from statetrace.interventions.cached import Keep, tokens_per_pass
from statetrace.interventions.capture import Edit, capturing, overwrite
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import Window
from statetrace.models.memory import in_pieces


class HookPatcher:
    """Runs both inputs of some pairs once and computes the cells of one site at a time.

    Attributes:
        cells: maximum cells per pass; halved when memory runs out.
    """

    def __init__(
        self, model: Any, clean: Tensor, corrupted: Tensor, donors: Sequence[Site], cells: int
    ) -> None:
        """clean, corrupted: tokens [P, T]; donors: the sites to substitute."""
        self.model, self.cells = model, cells
        self.pairs, self.length = clean.shape
        self.clean, self.corrupted = clean, corrupted
        self.limit = tokens_per_pass(clean.device)
        with capturing(model, donors) as activations:
            self.clean_logits = self._logits(clean)  # [P, V]
        self.activations = activations
        self.corrupted_logits = self._logits(corrupted)

    def row(self, site: Site, what: str, windows: Sequence[Window], keep: Keep) -> list[Tensor]:
        """The kept values [P, K] of every cell of one site, one window per cell."""
        base = self.corrupted if what == "substitution" else self.clean
        donor = self.activations[site] if what == "substitution" else None
        out: list[Tensor] = []

        def work(first: int, last: int) -> None:
            n = last - first
            with overwrite(self.model, {site: _patch(windows[first:last], donor)}):
                logits = self._logits(base.repeat(n, 1))
            out.extend(keep(logits.unflatten(0, (n, self.pairs))).unbind(0))

        most = self.limit // (self.pairs * self.length)
        self.cells = in_pieces(len(windows), self.cells, work, lambda first: most)
        return out

    def _logits(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model(tokens, use_cache=False).logits
        return logits[:, -1].clone()  # a view would keep all positions in memory


def _patch(windows: Sequence[Window], donor: Tensor | None) -> Edit:
    """Overwrite the window of each cell with donor [P, T, ...] or zeros, in activations
    [cells * P, T, ...]."""

    def edit(activation: Tensor) -> Tensor:
        patched = activation.unflatten(0, (len(windows), -1)).clone()
        for cell, (start, stop) in zip(patched, windows, strict=True):
            cell[:, start:stop] = 0 if donor is None else donor[:, start:stop]
        return patched.flatten(0, 1)

    return edit
