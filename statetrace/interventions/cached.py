"""Patching with cached activations: recompute only the positions that a patch can change.

Why it is exact. A patch of any kind at layer l changes the residual stream after block l only at
the positions of its window [a, b) (see fullrun.py). Call the run without a patch *base* and the run
with every position patched *full*. Models are causal, so above layer l
    - positions before a equal those of base, including keys and values;
    - if base and full agree before a (a prefix), positions before b equal those of full;
    - the other positions are recomputed, from full inside the window and from base after it.
Queries, keys and values of block l + 1 depend on their own position only and are taken from the two
runs; the last block is computed at the last position only.

Cost: a row of T prefixes at layer l takes T / 2 · (L - l - 1) block passes over T positions instead
of T · L, and one full run; a row of windows takes the same. Keys and values of both inputs and of
the full run of a row are cached.
Caveat: equal to a full forward pass up to the rounding of matrix products of different shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from statetrace.interventions.fullrun import (
    HOLD_ALL,
    FullRun,
    patched_everywhere,
    run_from,
    run_tokens,
)
from statetrace.interventions.sites import Site
from statetrace.interventions.spec import Window
from statetrace.models import Anatomy, causal_mask
from statetrace.models.memory import in_pieces

TOKENS_PER_PASS = {"cpu": 256, "cuda": 32768}
"""Positions per batch of cells: enough to keep the device busy, but no more, because all cells of a
batch are recomputed from the first position that any of them needs."""

Keep = Callable[[Tensor], Tensor]
"""Logits at the last position [cells, pairs, V] -> values to keep [cells, pairs, K]."""


@dataclass(frozen=True, order=True)
class PatchCell:
    """A cell to compute: positions from `start` on are recomputed."""

    start: int
    column: int
    window: Window


@dataclass
class Row:
    """The cells of one site, by the computation they need."""

    unchanged: list[int]  # columns
    all_patched: list[int]
    prefixes: list[PatchCell]
    interior: list[PatchCell]


class CachedPatcher:
    """Runs both inputs of some pairs once and computes the cells of one site at a time.

    Attributes:
        cells: maximum cells per pass; halved when memory runs out.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        clean: Tensor,
        corrupted: Tensor,
        substitutes: bool,
        inside: bool,
        cells: int,
    ) -> None:
        """
        Args:
            clean, corrupted: tokens [P, T].
            substitutes: whether there will be substitutions.
            inside: whether there will be sites other than the residual stream.
        """
        self.anatomy, self.cells = anatomy, cells
        self.pairs, self.length = clean.shape
        self.positions = torch.arange(self.length, device=clean.device)
        self.limit = tokens_per_pass(clean.device)
        hold = HOLD_ALL if inside else HOLD_ALL - {"z"}
        self.clean = run_tokens(anatomy, clean, hold)
        self.corrupted = run_tokens(anatomy, corrupted, hold if substitutes else frozenset())
        self.clean_logits, self.corrupted_logits = self.clean.answer, self.corrupted.answer
        different = (clean != corrupted).any(0).tolist()  # [T]
        self.different = [p for p in range(self.length) if different[p]]

    def row(self, site: Site, what: str, windows: Sequence[Window], keep: Keep) -> list[Tensor]:
        """The kept values [P, K] of every cell of one site, one window per cell."""
        base, donor = self.clean, None
        if what == "substitution":
            base, donor = self.corrupted, self.clean
        row = self._sort(site, self._changed(site, what), windows)
        out: list[Tensor] = [torch.empty(0)] * len(windows)
        if row.unchanged:
            _put(out, row.unchanged, keep(base.answer[None])[0])
        if len(row.unchanged) < len(windows):
            full = self._full(site, base, donor, bool(row.all_patched or row.prefixes))
            if row.all_patched:
                answer = full.answer.expand(self.pairs, -1)
                _put(out, row.all_patched, keep(answer[None])[0])
            self._tails(site.layer, full, full, base, row.prefixes, keep, out)
            self._tails(site.layer, base, full, base, row.interior, keep, out)
        return out

    def _changed(self, site: Site, what: str) -> list[int]:
        """The positions at which overwriting the site can have an effect."""
        if what == "deletion":
            return list(range(self.length))
        if site == Site("resid", 0) or not self.different:
            return self.different
        return list(range(self.different[0], self.length))

    def _sort(self, site: Site, changed: Sequence[int], windows: Sequence[Window]) -> Row:
        row = Row([], [], [], [])
        top = site.layer == self.anatomy.layers  # no attention above it
        for column, (start, stop) in enumerate(windows):
            inside = [p for p in changed if start <= p < stop]
            if not inside or (top and inside[-1] < self.length - 1):
                row.unchanged.append(column)
            elif top or len(inside) == len(changed):
                row.all_patched.append(column)
            elif inside[0] == changed[0]:
                row.prefixes.append(PatchCell(inside[-1] + 1, column, (inside[0], inside[-1] + 1)))
            else:
                row.interior.append(PatchCell(inside[0], column, (inside[0], inside[-1] + 1)))
        return row

    def _full(self, site: Site, base: FullRun, donor: FullRun | None, to_the_end: bool) -> FullRun:
        """The run with the site overwritten at every position."""
        if site.kind == "resid" and donor is not None:
            return donor
        resid = patched_everywhere(self.anatomy, site, base, donor)
        return run_from(self.anatomy, resid, site.layer, to_the_end)

    def _tails(
        self,
        layer: int,
        before: FullRun,
        full: FullRun,
        base: FullRun,
        cells: list[PatchCell],
        keep: Keep,
        out: list[Tensor],
    ) -> None:
        """Compute cells, neighbours together, and store them in their columns."""
        cells = sorted(cells)

        def fit(first: int) -> int:
            return self.limit // (self.pairs * (self.length - cells[first].start))

        def work(first: int, last: int) -> None:
            piece = cells[first:last]
            windows = [cell.window for cell in piece]
            logits = self._tail(layer, before, full, base, windows, piece[0].start)
            for cell, values in zip(piece, keep(logits), strict=True):
                out[cell.column] = values

        self.cells = in_pieces(len(cells), self.cells, work, fit)

    def _tail(
        self,
        layer: int,
        before: FullRun,
        full: FullRun,
        base: FullRun,
        windows: Sequence[Window],
        start: int,
    ) -> Tensor:
        """Logits [cells, P, V]. Positions before `start` are taken from the run `before`; the
        others start from `full` inside the window of their cell and from `base` elsewhere, and are
        recomputed."""
        read, n = self.anatomy, len(windows)
        positions = self.positions[start:]
        mask = causal_mask(positions, self.positions)  # [T - start, T]
        queried = self.length - 1 if layer == read.layers - 1 else start
        resid = self._mix(full.resid[layer], base.resid[layer], windows, queried, 1)
        q = self._mix(full.q[layer + 1], base.q[layer + 1], windows, queried, 2)
        k = self._mix(full.k[layer + 1], base.k[layer + 1], windows, start, 2)
        v = self._mix(full.v[layer + 1], base.v[layer + 1], windows, start, 2)
        for block in range(layer, read.layers):
            if block > layer:
                q, k, v = read.qkv(block, resid, positions)
            if block == read.layers - 1:
                q, resid, mask = q[:, :, -1:], resid[:, -1:], mask[-1:]
            k = self._extended(before.k[block + 1], k, n, start)
            v = self._extended(before.v[block + 1], v, n, start)
            attn_out = read.attn_out(block, read.attend(block, q, k, v, mask))
            resid = read.combine(block, resid, attn_out, read.mlp_out(block, resid, attn_out))
        return read.unembed(resid)[:, -1].unflatten(0, (n, self.pairs))

    def _mix(
        self, full: Tensor, base: Tensor, windows: Sequence[Window], start: int, dim: int
    ) -> Tensor:
        """[P, ...] with positions along `dim` -> [cells * P, ...] from position `start` on: `full`
        inside the window of each cell, `base` elsewhere."""
        base = base.narrow(dim, start, self.length - start)
        if len(windows) == 1 and windows[0][1] <= start:
            return base
        mixed = base.expand(len(windows), *base.shape).clone()
        for cell, (first, stop) in zip(mixed, windows, strict=True):
            first = max(first, start)
            if first < stop:
                part = full.narrow(dim, first, stop - first)
                cell.narrow(dim, first - start, stop - first).copy_(part)
        return mixed.flatten(0, 1)

    def _extended(self, before: Tensor, fresh: Tensor, cells: int, start: int) -> Tensor:
        """Keys or values at all positions: those of `before` up to `start`, then the fresh ones."""
        if start == 0:
            return fresh
        shape = (cells, self.pairs, before.shape[1], start, before.shape[3])
        early = before[:, :, :start].expand(shape).flatten(0, 1)
        return torch.cat((early, fresh), dim=2)


def tokens_per_pass(device: torch.device) -> int:
    return TOKENS_PER_PASS.get(device.type, TOKENS_PER_PASS["cuda"])


def _put(out: list[Tensor], columns: Sequence[int], values: Tensor) -> None:
    for column in columns:
        out[column] = values
